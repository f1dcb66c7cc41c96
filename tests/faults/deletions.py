"""All periodic deletions in one process, which prints its time: `python -m tests.faults.deletions [unguarded]`.

`unguarded` deletes even if the clock is wrong.
"""

import sys

import django

django.setup()

from django.utils import timezone  # noqa: E402 - the rest needs the settings

from dashboard import tasks as dashboard_tasks  # noqa: E402
from jobs import tasks as job_tasks  # noqa: E402
from privacy import tasks as privacy_tasks  # noqa: E402
from simservice import clocks  # noqa: E402
from webhooks import tasks as webhook_tasks  # noqa: E402

TASKS = (
    job_tasks.clear_expired,
    job_tasks.forget_builds,
    job_tasks.forget_credentials,
    job_tasks.sweep,
    privacy_tasks.delete_data,
    dashboard_tasks.forget_sessions,
    webhook_tasks.maintain,
)

if __name__ == "__main__":
    if "unguarded" in sys.argv:
        clocks.is_right = lambda: True
    for task in TASKS:
        task()
    sys.stdout.write(timezone.now().isoformat())
