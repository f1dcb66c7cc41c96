"""Speed of the pages with a million jobs in the database, three in ten of the visitor's account.

Requests are sequential, so the figures are the server's own time. Takes four minutes, mostly to create the jobs;
`--jobs 100000` takes one.
"""

import statistics
import sys
from argparse import ArgumentParser
from itertools import cycle, islice
from urllib.parse import urlencode

from bench.api import JOBS, Call, Server, processor_seconds, server

REQUESTS = 100
# A visitor's choices on the page of a result
CHOICES = "only=upgrades&sort=name&base=17&by=hits"
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
        "job, 5,000 profilesets": [f"{jobs}/{key}" for key in filled["withResults"]],
        "job, sorted, from another baseline": [f"{jobs}/{key}?{CHOICES}" for key in filled["withResults"]],
        "job, waiting": [f"{jobs}/{key}" for key in filled["waiting"]],
        "submit a job": [f"{jobs}/new"],
        "submit again": [f"{jobs}/new?again={key}" for key in filled["withResults"]],
        "clients": [f"{root}/clients"],
        "credits": [f"{root}/credits"],
        "history of a character": [f"{root}/history"],
        "compare four jobs": [f"{root}/compare?{four_of('job', filled['withResults'])}"],
        "share page, 5,000 profilesets": [f"/share/{key}" for key in filled["shared"]],
        "picture of a share page": [f"/share/{key}/card.png" for key in filled["shared"]],
        "compare four share pages": [f"/compare?{four_of('share', filled['shared'])}"],
        "home": ["/"],
        "example": ["/example"],
    }


def four_of(name: str, keys: list[str]) -> str:
    """Return the query string that compares four jobs."""
    return urlencode([(name, key) for key in keys[:4]])


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
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS)
    with server(jobs=parser.parse_args().jobs) as running:
        for name, paths in pages(running).items():
            sys.stdout.write(f"{name:<40}{measure(running, paths):>45}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
