"""Speed of the pages with a million jobs in the database, three in ten of the visitor's account.

Requests are sequential, so the figures are the server's own time. Takes three minutes, mostly to create the jobs.
"""

import statistics
import sys
from itertools import cycle, islice

from bench.api import Call, Server, processor_seconds, server

REQUESTS = 100
WARM_UP = 10


def pages(running: Server) -> dict[str, list[str]]:
    """Return the addresses of each row of the table."""
    filled = running.filled
    root = f"/dashboard/{filled['account']}"
    jobs = f"{root}/jobs"
    return {
        "overview": [f"{root}/"],
        "jobs": [jobs],
        "jobs, a deep page": [f"{jobs}?after={filled['cursor']}"],
        "jobs, failed": [f"{jobs}?status=failed"],
        "jobs, unfinished": [f"{jobs}?status=active"],
        "jobs, filtered by build": [f"{jobs}?build={filled['build']}"],
        "jobs, filtered by client and status": [f"{jobs}?client={filled['client']}&status=timed_out"],
        "jobs, text in every job": [f"{jobs}?text=bench"],
        "jobs, text in no job": [f"{jobs}?text=nowhere"],
        "jobs, no match for two filters": [f"{jobs}?build={filled['build']}&status=failed"],
        "job, 200 profilesets": [f"{jobs}/{key}" for key in filled["withResults"]],
        "job, waiting": [f"{jobs}/{key}" for key in filled["waiting"]],
        "job, the part that is refreshed": [f"{jobs}/{key}/live" for key in filled["waiting"]],
        "submit a job": [f"{jobs}/new"],
        "submit again": [f"{jobs}/new?again={key}" for key in filled["withResults"]],
        "clients": [f"{root}/clients"],
        "credits": [f"{root}/credits"],
        "share page, 200 profilesets": [f"/share/{key}" for key in filled["shared"]],
    }


def measure(running: Server, paths: list[str]) -> str:
    """Request pages in sequence; return their durations."""
    calls = [Call("GET", path) for path in islice(cycle(paths), WARM_UP + REQUESTS)]
    running.seconds(calls[:WARM_UP])
    cpu_before = processor_seconds()
    durations = [seconds * 1000 for seconds in running.seconds(calls[WARM_UP:])]
    cost = (processor_seconds() - cpu_before) / REQUESTS * 1000
    cuts = statistics.quantiles(durations, n=20)
    return f"p50 {cuts[9]:.0f}  p95 {cuts[18]:.0f} ms  {cost:.1f} CPU ms each"


def main() -> None:
    with server() as running:
        for name, paths in pages(running).items():
            sys.stdout.write(f"{name:<40}{measure(running, paths):>45}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
