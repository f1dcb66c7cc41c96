"""The web server's worker with a limit of statements that no busy machine reaches before it notices an outage."""

from simservice.postgresql import connections
from simservice.web import gunicorn_worker

STATEMENT_SECONDS = 60

connections.WEB_STATEMENT_SECONDS = STATEMENT_SECONDS
Worker = gunicorn_worker.Worker
