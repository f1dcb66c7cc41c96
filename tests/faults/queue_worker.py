"""`python -m tests.faults.queue_worker SLOTS [POINT [shard]]`: run jobs without a broker until none is left.

If a point is given, the process kills itself there; with `shard`, only once a shard is done.
"""

import sys
import threading
import time

import django


def work() -> None:
    """Run jobs like a slot of the Celery worker until no job waits or runs."""
    from django.db import connection

    from jobs.enums import ACTIVE
    from jobs.execution import simulation_worker
    from jobs.models import Job

    while Job.objects.filter(status__in=ACTIVE).exists():
        simulation_worker.simulate()
        time.sleep(0.1)
    connection.close()


def main(slots: str, point: str = "", condition: str = "") -> None:
    django.setup()
    from simservice.celery import app
    from tests.faults.points import WORKER_AND_SHARD_POINTS, die, die_after_a_shard

    if point:
        WORKER_AND_SHARD_POINTS[point](die_after_a_shard if condition else die)
    # Celery creates tasks on first use, which is not thread-safe.
    app.finalize(auto=True)
    threads = [threading.Thread(target=work) for _ in range(int(slots))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
