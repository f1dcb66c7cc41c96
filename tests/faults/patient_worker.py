"""The web server's worker with a limit of statements that no busy machine reaches before it notices an outage.

Only gunicorn imports this module: the limit holds for the whole process.
"""

from simservice.postgresql import connections
from simservice.web import gunicorn_worker

connections.WEB_STATEMENT_SECONDS = 60
Worker = gunicorn_worker.Worker
