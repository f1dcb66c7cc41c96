"""`simctl list`, `show`, `cancel`, `pause`, `resume` and `download`."""

from argparse import Namespace
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

from simservice_client import Client
from simservice_client._files import safe_name
from simservice_client._json import Model
from simservice_client._queries import Filters
from simservice_client.cli.console import Column, Console
from simservice_client.cli.exits import Exit, message_of, status_of
from simservice_client.cli.formats import STATUS_COLOURS, UNKNOWN, cancelled, moment, paused, resumed, state, whole
from simservice_client.cli.ranking import print_figures, print_missing
from simservice_client.cli.session import open_client
from simservice_client.cli.weights import has_weights, print_weights
from simservice_client.error_codes import ResultNotReady, ResultUnavailable
from simservice_client.errors import SimserviceError
from simservice_client.models import Job, JobResult

LONGEST_PAGE = 100
Answer = TypeVar("Answer", bound=Model)


def list_jobs(arguments: Namespace, console: Console) -> int:
    """Print the newest jobs."""
    with open_client(arguments) as client:
        filters: Filters = {"status": arguments.status or ()}
        if arguments.since is not None:
            filters["created_after"] = arguments.since
        found = client.jobs.list(page_size=min(arguments.limit, LONGEST_PAGE), **filters)
        jobs = list(islice(found, arguments.limit))
    if console.as_json:
        console.document([job.to_json() for job in jobs])
        return Exit.COMPLETED
    columns = [Column("Job"), Column("Status", colours=STATUS_COLOURS), Column("Created"), Column("Title")]
    rows = [[job.id, state(job.status), moment(job.created_at), job.title] for job in jobs]
    console.table(columns, rows)
    return Exit.COMPLETED


def show(arguments: Namespace, console: Console) -> int:
    """Print a job, with its result if it has one."""
    with open_client(arguments) as client:
        job = _with_result(client, arguments.job)
    if console.as_json:
        console.document(job.to_json())
        return Exit.COMPLETED
    _print_facts(console, job)
    if isinstance(job, JobResult):
        print_missing(console, job)
        if job.summary is not None:
            console.line()
            print_figures(console, job)
        print_weights(console, job)
    return Exit.COMPLETED


def cancel(arguments: Namespace, console: Console) -> int:
    """Cancel jobs."""
    with open_client(arguments) as client:
        return _change(arguments.jobs, console, client.jobs.cancel, words=cancelled)


def pause(arguments: Namespace, console: Console) -> int:
    """Pause jobs."""
    with open_client(arguments) as client:
        return _change(arguments.jobs, console, client.jobs.pause, words=paused)


def resume(arguments: Namespace, console: Console) -> int:
    """Resume paused jobs."""
    with open_client(arguments) as client:
        return _change(arguments.jobs, console, client.jobs.resume, words=resumed)


def _change(
    jobs: Sequence[str], console: Console, action: Callable[[str], Answer], *, words: Callable[[Answer], str]
) -> int:
    """Change jobs, and print the answers or errors. One that is refused does not prevent the others."""
    answers = [_changed(job, console, action, words=words) for job in jobs]
    if console.as_json:
        console.document([each.to_json() for each in answers if not isinstance(each, Exit)])
    return max(each if isinstance(each, Exit) else Exit.COMPLETED for each in answers)


def _changed(
    job: str, console: Console, action: Callable[[str], Answer], *, words: Callable[[Answer], str]
) -> Answer | Exit:
    """Return the answer of the service, or the exit status after an error, and print either."""
    try:
        answer = action(job)
    except SimserviceError as error:
        console.complain(f"job {job}: {message_of(error)}")
        return status_of(error)
    if not console.as_json:
        console.line(words(answer))
    return answer


def download(arguments: Namespace, console: Console) -> int:
    """Download the files of a job and print their paths."""
    folder = Path(arguments.folder or safe_name(arguments.job))
    with open_client(arguments) as client:
        files = client.jobs.download(arguments.job, folder, kinds=arguments.kind)
    if console.as_json:
        console.document({name: str(path) for name, path in files.items()})
    else:
        for path in files.values():
            console.line(str(path))
    return Exit.COMPLETED


def _with_result(client: Client, job_id: str) -> Job | JobResult:
    """Return a job with its result, without one if it has none or has not ended."""
    try:
        result = client.jobs.results(job_id)
        return client.jobs.results(job_id, details=True) if has_weights(result) else result
    except (ResultNotReady, ResultUnavailable):
        return client.jobs.get(job_id)


def _print_facts(console: Console, job: Job | JobResult) -> None:
    """Print the facts of a job that are known."""
    reason = job.status_reason or job.error_code
    facts = {
        "Job": job.id,
        "Title": job.title,
        "Status": state(job.status) + (f": {reason}" if reason else ""),
        **({"Paused": f"since {moment(job.paused_at)}"} if job.paused_at is not None else {}),
        "Priority": job.priority,
        "Created": moment(job.created_at),
        "Started": moment(job.started_at),
        "Ended": moment(job.completed_at),
        "Credits": whole(job.runtime.credits_consumed),
        "Build": UNKNOWN if job.build is None else f"{job.build.channel} {job.build.commit}, {job.build.id}",
        "Metadata": ", ".join(f"{name}={value}" for name, value in job.metadata.items()) or UNKNOWN,
        "Share": job.links.share,
    }
    for name, value in facts.items():
        console.line(f"{name:9} {value}")
