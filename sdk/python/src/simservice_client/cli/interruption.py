"""Ctrl-C during `simctl run`: ask whether to cancel the jobs."""

from collections.abc import Sequence

from simservice_client import Client
from simservice_client.cli.console import Console
from simservice_client.cli.exits import Exit, message_of
from simservice_client.cli.formats import cancelled
from simservice_client.errors import SimserviceError


def handle(client: Client, console: Console, jobs: Sequence[str]) -> Exit:
    """Ask on the terminal whether to cancel the jobs, and do so. Another Ctrl-C leaves at once."""
    console.clear_progress()
    try:
        if jobs and _wants_to_cancel(console, jobs):
            for job in jobs:
                _cancel(client, console, job)
            return Exit.INTERRUPTED
    except KeyboardInterrupt:
        pass
    console.complain(_farewell(jobs))
    return Exit.INTERRUPTED


def _farewell(jobs: Sequence[str]) -> str:
    if not jobs:
        return "Interrupted. If a profile was just being submitted, `simctl list` shows its job."
    noun = "The job continues" if len(jobs) == 1 else "The jobs continue"
    return f"Interrupted. {noun}. To cancel: simctl cancel {' '.join(jobs)}"


def _wants_to_cancel(console: Console, jobs: Sequence[str]) -> bool:
    """Return the answer of a person at the terminal, false if there is none."""
    noun = f"job {jobs[0]}" if len(jobs) == 1 else f"{len(jobs)} jobs"
    answer = console.ask(f"Cancel {noun}? [y/N] ")
    return answer is not None and answer.strip().lower() in ("y", "yes")


def _cancel(client: Client, console: Console, job: str) -> None:
    try:
        cancellation = client.jobs.cancel(job)
    except SimserviceError as error:
        console.complain(f"job {job}: {message_of(error)}")
    else:
        console.complain(cancelled(cancellation))
