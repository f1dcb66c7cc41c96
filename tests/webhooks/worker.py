"""`python -m tests.webhooks.worker [POINT]`: a delivery worker without a broker that delivers all events.

If it is given the name of a fault point, it kills itself there.
"""

import sys
import time

import django

LEASE_SECONDS = 1


def main(point: str = "") -> None:
    django.setup()
    from tests.faults.points import die
    from tests.webhooks.fault_points import POINTS
    from webhooks import claims, retries, tasks
    from webhooks.models import Event

    claims.LEASE_SECONDS = LEASE_SECONDS
    if point:
        POINTS[point](die)
    while Event.objects.filter(state__in=["waiting", "sending"]).exists():
        retries.recover_lost()
        tasks.deliver()
        time.sleep(0.02)


if __name__ == "__main__":
    main(*sys.argv[1:])
