"""Receive webhooks with FastAPI.

pip install fastapi uvicorn simservice-client
WEBHOOK_SECRET=whsec_… uvicorn --port 8002 fastapi_receiver:app
"""

import os
import sqlite3
from contextlib import closing
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request

from simservice_client import InvalidSignature, UnknownEvent, event_id_of, verify_webhook
from simservice_client.models import TerminalEvent

SECRET = os.environ["WEBHOOK_SECRET"]
DATABASE = "events.sqlite3"
MAX_BYTES = 64 * 1024

app = FastAPI()
with closing(sqlite3.connect(DATABASE)) as connection:
    connection.execute("CREATE TABLE IF NOT EXISTS events (id TEXT PRIMARY KEY)")


async def raw_body(request: Request) -> bytes:
    """Return the body as it was signed. Raises HTTPException if it is too large."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BYTES:
            raise HTTPException(413)
    return body


@app.post("/hook", status_code=204)
def receive(request: Request, body: Annotated[bytes, Depends(raw_body)]) -> None:
    try:
        event_id = event_id_of(request.headers)
        event = verify_webhook(body, request.headers, secret=SECRET)
    except InvalidSignature as error:
        raise HTTPException(400, str(error)) from None
    except UnknownEvent:
        return
    # An event can arrive again, also after a restart and at another process, so a table remembers its id. If
    # `handle` fails, the id is rolled back, the response is 500, and the service sends the event again.
    with closing(sqlite3.connect(DATABASE)) as connection, connection:
        if connection.execute("INSERT INTO events VALUES (?) ON CONFLICT DO NOTHING", [event_id]).rowcount:
            handle(event)


def handle(event: TerminalEvent) -> None:
    """Process an event. Only enqueue longer work here: the service waits ten seconds for the response."""
    print(f"Job {event.payload.id}: {event.payload.status}", flush=True)
