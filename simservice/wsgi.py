"""The WSGI application that gunicorn serves."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "simservice.settings")
django.setup(set_prefix=False)

from simservice.edge import Handler  # noqa: E402 - the framework reads its settings on import

application = Handler()
