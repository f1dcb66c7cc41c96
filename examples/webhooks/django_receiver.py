"""Receive webhooks with Django. Run this file as it is, or copy its view into a project.

pip install django gunicorn simservice-client
WEBHOOK_SECRET=whsec_… gunicorn --bind 127.0.0.1:8001 django_receiver:application
"""

import os

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from simservice_client import InvalidSignature, UnknownEvent, event_id_of, verify_webhook
from simservice_client.models import TerminalEvent

SECRET = os.environ["WEBHOOK_SECRET"]
settings.configure(
    ROOT_URLCONF=__name__,
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "events.sqlite3"}},
    DATA_UPLOAD_MAX_MEMORY_SIZE=64 * 1024,  # larger bodies get 400
)


@csrf_exempt  # the signature proves the origin
@require_POST
def receive(request: HttpRequest) -> HttpResponse:
    try:
        event_id = event_id_of(request.headers)
        event = verify_webhook(request.body, request.headers, secret=SECRET)
    except InvalidSignature as error:
        return HttpResponse(f"{error}\n", status=400)
    except UnknownEvent:
        return HttpResponse(status=204)
    # An event can arrive again, also after a restart and at another process, so a table remembers its id. If
    # `handle` fails, the id is rolled back, the response is 500, and the service sends the event again.
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("INSERT INTO events (id) VALUES (%s) ON CONFLICT DO NOTHING", [event_id])
        if cursor.rowcount:
            handle(event)
    return HttpResponse(status=204)


def handle(event: TerminalEvent) -> None:
    """Process an event. Only enqueue longer work here: the service waits ten seconds for the response."""
    print(f"Job {event.payload.id}: {event.payload.status}", flush=True)


urlpatterns = [path("hook", receive)]
application = get_wsgi_application()
with connection.cursor() as cursor:  # in a project, this is a model with a migration
    cursor.execute("CREATE TABLE IF NOT EXISTS events (id TEXT PRIMARY KEY)")
