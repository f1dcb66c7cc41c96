"""Fill an empty, migrated database with a million jobs, or BENCH_JOBS; print ids and secrets as one line of JSON.

Run as `python -m bench.million_jobs`, because Django can be set up for one database per process only.
"""

import json
import os
import sys
from datetime import timedelta
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "simservice.settings")
django.setup()

from django.contrib.auth.models import User  # noqa: E402 - after Django's setup
from django.test import Client as HttpClient  # noqa: E402
from django.utils import timezone  # noqa: E402

from bench import fill  # noqa: E402
from billing import ledger  # noqa: E402
from billing.models import MAX_AMOUNT, Account, Plan  # noqa: E402
from clients.accounts import default_client, open_account  # noqa: E402
from clients.audit import SYSTEM  # noqa: E402
from clients.keys import create_key  # noqa: E402
from clients.models import Membership  # noqa: E402
from jobs.models import Build, DailyUsage, Job, JobDetails, JobRanking, Run  # noqa: E402
from jobs.results import details, rankings  # noqa: E402
from simc import report_details  # noqa: E402
from simc.reports import Profileset, Statistics  # noqa: E402
from simservice.api.pagination import make_cursor  # noqa: E402

# The number of jobs. Three in ten belong to the first account. All are within the retention period.
JOBS = int(os.environ.get("BENCH_JOBS", "1000000"))
WAITING = JOBS // 50
LARGEST = JOBS * 3 // 10
ACCOUNTS = 100
NO_LIMIT = 1_000_000
# Profilesets of each job with results
SETS = 5_000


def open_accounts() -> Account:
    """Open accounts without effective limits; return the largest one."""
    limited = ("submissions_per_minute", "submission_bytes_per_minute", "reads_per_minute", "max_active_jobs")
    limits = dict.fromkeys(limited, NO_LIMIT)
    plan = Plan.objects.create(name="bench", **limits)
    accounts = [open_account(f"bench-{number}", plan=plan) for number in range(ACCOUNTS)]
    ledger.correct(accounts[0], MAX_AMOUNT // 10, reason="bench")
    return accounts[0]


def log_in(account: Account) -> str:
    """Return a session key of an account's owner."""
    user = User.objects.create(username="bench")
    Membership.objects.create(user=user, account=account, role=Membership.Role.OWNER)
    browser = HttpClient()
    browser.force_login(user)
    return browser.cookies["sessionid"].value


def _count_days(account: Account) -> None:
    """Add a month of daily usage to an account."""
    today, client = timezone.now().date(), default_client(account)
    days = [today - timedelta(days=number) for number in range(30)]
    counted = {"account": account, "client": client, "jobs": 9_000, "runs": 9_000, "sim_ms": 1, "credits": 99_000}
    DailyUsage.objects.bulk_create(DailyUsage(day=day, **counted) for day in days)


def _give_results(jobs: list[Job]) -> Build:
    """Add a build, three runs, 5,000 profilesets and full details to some jobs; return the build."""
    build = Build.objects.create(
        executable="/bin/false", git_branch="midnight", commit="0" * 40, simc_version="1", created_at=timezone.now()
    )
    figures = {"mean_error": 9.0, "mean_stddev": 4.6, "stddev": 900.0, "min": 1.0, "max": 2e5}
    rows = [{"name": f"Trinket {n}", "mean": 1e5 - n, "stage": 3, **figures} for n in range(200)]
    stages = [{"stage": n, "label": "final", "profilesets": 5_000 // n, "culled": 100} for n in (1, 2, 3)]
    actor = {"name": "Ada", "mean": 99_900.0, **figures, "profilesets": {"count": SETS, "results": rows}}
    staged = {"enabled": True, "reason": "eligible_profileset_only", "stages": stages}
    summary = {"metric": "dps", "mainActor": actor, "multiStage": staged}
    Job.objects.filter(pk__in=[job.pk for job in jobs]).update(build=build, summary=summary, character="Ada")
    ranking, document = rankings.packed(_profilesets()) or b"", details.packed(_details())
    JobRanking.objects.bulk_create(JobRanking(job=job, document=ranking) for job in jobs)
    JobDetails.objects.bulk_create(
        JobDetails(job=job, document=document, version=report_details.VERSION) for job in jobs
    )
    ran = {"attempt": 1, "build": build, "wall_ms": 9_000, "cpu_ms": 8_000, "exit_code": "0"}
    Run.objects.bulk_create(
        Run(job=job, stage=n, started_at=job.created_at, ended_at=job.created_at, **ran)
        for job in jobs
        for n in (1, 2, 3)
    )
    return build


def _profilesets() -> list[Profileset]:
    """Return the profilesets of a job, best first."""
    figures = {"stddev": 900.0, "mean_stddev": 4.6, "min": 1.0, "max": 2e5}
    return [
        Profileset(name=f"Trinket {n}: of the vault", statistics=Statistics(mean=1e5 - n, **figures), stage=3)
        for n in range(SETS)
    ]


def _details() -> dict[str, Any]:
    """Return details with as much as a page shows, and more."""
    abilities = [
        {"name": f"Ability {n}", "id": n, "school": "frost", "share": 0.01, "dps": 999.0} for n in range(100)
    ]
    buffs = [{"name": f"Buff {n}", "id": n, "uptime": 100 - n / 2, "count": 3.0} for n in range(200)]
    actor = {
        "name": "Ada",
        "class": "Mage",
        "dps": {"mean": 99_900.0, "error": 9.0, "min": 9e4, "max": 2e5, "median": 99_800.0, "stddev": 900.0},
        "abilities": [{**ability, "children": abilities[:3]} for ability in abilities],
        "buffs": buffs,
        "damage": {"step": 1.0, "values": [1e5 + n for n in range(600)]},
    }
    return {"version": report_details.VERSION, "fight": {"style": "Patchwerk", "targets": 1}, "actors": [actor]}


def _some_ids(account: Account, *, waiting: bool) -> list[str]:
    """Return ids of jobs across the account's history."""
    jobs = Job.objects.filter(account=account, completed_at__isnull=waiting).order_by("share_token")
    return [str(number) for number in jobs.values_list("pk", flat=True)[:1000]]


def main() -> None:
    account = open_accounts()
    fill.insert(fill.Series(last=JOBS, waiting=WAITING, accounts=ACCOUNTS))
    with_results = list(Job.objects.filter(account=account, status="completed").order_by("share_token")[:300])
    build = _give_results(with_results)
    _count_days(account)
    fill.analyze()
    deep = Job.objects.filter(account=account).order_by("-id").values_list("pk", flat=True)[LARGEST * 9 // 10]
    summary = {
        "apiKey": create_key(default_client(account), by=SYSTEM)[1],
        "cursor": make_cursor(account_id=account.pk, last_id=deep),
        "ended": _some_ids(account, waiting=False),
        "waiting": _some_ids(account, waiting=True),
        "account": account.name,
        "client": default_client(account).pk,
        "build": str(build.pk),
        "session": log_in(account),
        "withResults": [str(job.pk) for job in with_results],
        "shared": [job.share_token for job in with_results],
    }
    sys.stdout.write(json.dumps(summary) + "\n")


if __name__ == "__main__":
    main()
