"""`simctl credits`, `usage` and `builds`."""

from argparse import Namespace

from simservice_client.cli.console import Column, Console
from simservice_client.cli.exits import Exit
from simservice_client.cli.formats import duration, moment, state, whole
from simservice_client.cli.session import open_client
from simservice_client.models import PlanLimits, Usage


def show_credits(arguments: Namespace, console: Console) -> int:
    """Print the credits that the account can spend."""
    with open_client(arguments) as client:
        found = client.credits()
    if console.as_json:
        console.document(found.to_json())
        return Exit.COMPLETED
    columns = [Column("Credits"), Column("Left", is_right=True), Column("Of", is_right=True), Column("Expire")]
    rows = [
        [
            each.note or state(each.reason),
            whole(each.remaining),
            whole(each.original),
            moment(each.expires_at) if each.expires_at else "never",
        ]
        for each in found.grants
    ]
    console.table(columns, [*rows, ["purchased", whole(found.purchased), "", "never"]])
    total = found.purchased + sum(each.remaining for each in found.grants)
    console.line(
        f"\nTotal {whole(total)}, and {whole(found.reserved)} reserved for jobs that have not ended.".strip()
    )
    return Exit.COMPLETED


def usage(arguments: Namespace, console: Console) -> int:
    """Print this month's usage and the limits of the plan."""
    with open_client(arguments) as client:
        found = client.usage()
    if console.as_json:
        console.document(found.to_json())
        return Exit.COMPLETED
    for name, value in [*_usage_facts(found).items(), *_plan_facts(found.plan).items()]:
        console.line(f"{name:26} {value}")
    return Exit.COMPLETED


def builds(arguments: Namespace, console: Console) -> int:
    """Print the current builds."""
    with open_client(arguments) as client:
        found = client.builds.list()
    if console.as_json:
        console.document([build.to_json() for build in found])
        return Exit.COMPLETED
    columns = [
        Column("Branch"),
        Column("Channel"),
        Column("Version"),
        Column("Commit"),
        Column("Created"),
        Column("Id"),
    ]
    rows = [
        [each.git_branch, each.channel, each.simc_version, each.commit, moment(each.created_at), each.id]
        for each in found
    ]
    console.table(columns, rows)
    return Exit.COMPLETED


def _usage_facts(found: Usage) -> dict[str, str]:
    period, snapshot = found.period, found.snapshot
    return {
        "Period": f"{moment(period.start)} to {moment(period.end)}",
        "Jobs that ran": whole(period.sims_run),
        "Average running time": duration(period.avg_runtime_seconds),
        "Reads in the last minute": f"{whole(period.reads_used)} of {whole(period.reads_limit)}",
        "Unfinished jobs": f"{whole(snapshot.active_jobs)} of {whole(found.plan.max_active_jobs)} "
        f"({whole(snapshot.queued_jobs)} queued, {whole(snapshot.running_jobs)} running)",
    }


def _plan_facts(plan: PlanLimits) -> dict[str, str]:
    return {
        "Credits per second": whole(plan.credits_per_second),
        "Most credits per job": whole(plan.max_credits_per_job),
        "Longest running time": duration(plan.max_runtime_seconds),
        "Longest wait": duration(plan.max_queue_seconds),
        "Most variants": whole(plan.max_simc_variants),
        "Slots per job": whole(plan.max_parallel_slots),
        "Fee of high priority": f"{whole(plan.priority_fee_credits.high)} credits",
    }
