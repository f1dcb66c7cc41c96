"""The WSGI application for gunicorn."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "simservice.settings")
django.setup(set_prefix=False)

from simservice import urls  # noqa: E402, F401 - otherwise, the first request loads the views
from simservice.postgresql.connections import WEB_STATEMENT_SECONDS, limit_statements  # noqa: E402
from simservice.storages import limits  # noqa: E402
from simservice.web.wsgi_handler import Handler  # noqa: E402 - the framework reads its settings on import

limit_statements(WEB_STATEMENT_SECONDS, watched=True)
limits.fails_fast = True
application = Handler()
