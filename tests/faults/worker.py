"""`python -m tests.faults.worker SLOTS [POINT]`: a worker without a broker, which works until no job is left.

With the name of a point it kills itself there.
"""

import sys
import threading
import time

import django


def work() -> None:
    """Work off the queue, as a slot of the Celery worker does, until no job waits or runs."""
    from django.db import connection

    from jobs import tasks
    from jobs.enums import ACTIVE
    from jobs.models import Job

    while Job.objects.filter(status__in=ACTIVE).exists():
        tasks.simulate()
        time.sleep(0.1)
    connection.close()


def main(slots: str, point: str = "") -> None:
    django.setup()
    from simservice.celery import app
    from tests.faults.points import POINTS, die

    if point:
        POINTS[point](die)
    # As a Celery worker does before its threads start: tasks are made when first called, which threads race for.
    app.finalize(auto=True)
    threads = [threading.Thread(target=work) for _ in range(int(slots))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
