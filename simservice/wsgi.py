"""The WSGI application for gunicorn."""

import gc
import os

import django

from simservice import memory, unused_modules

unused_modules.block()
# Imported modules never become garbage, so collecting while they load would only waste a tenth of the start.
gc.disable()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "simservice.settings")
django.setup(set_prefix=False)

from simservice import urls  # noqa: E402, F401 - otherwise, the first request loads the views
from simservice.database import WEB_STATEMENT_SECONDS, limit_statements  # noqa: E402
from simservice.storages import limits  # noqa: E402
from simservice.web.wsgi_handler import Handler  # noqa: E402 - the framework reads its settings on import

limit_statements(WEB_STATEMENT_SECONDS, watched=True)
limits.fails_fast = True
application = memory.with_room_for_frames(Handler())
memory.settle()
gc.enable()
