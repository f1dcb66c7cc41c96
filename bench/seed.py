"""Open accounts without limits: `python -m bench.seed COUNT` prints their API keys as a JSON list."""

import json
import os
import sys

import django

NO_LIMIT = 1_000_000_000


def main(count: int) -> None:
    from billing import ledger
    from billing.models import Plan
    from clients.accounts import default_client, open_account
    from clients.audit import SYSTEM
    from clients.keys import create_key

    limited = ("submissions_per_minute", "submission_bytes_per_minute", "reads_per_minute", "max_active_jobs")
    plan = Plan.objects.create(name="bench", **dict.fromkeys(limited, NO_LIMIT))
    keys = []
    for number in range(count):
        account = open_account(f"bench-{number}", plan=plan)
        ledger.correct(account, 10**11, reason="bench")
        keys.append(create_key(default_client(account), by=SYSTEM)[1])
    sys.stdout.write(json.dumps(keys) + "\n")


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "simservice.settings")
    django.setup()
    main(int(sys.argv[1]))
