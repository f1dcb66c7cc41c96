"""The end of what a job's simulator printed, for operators."""

from jobs.artifacts import artifact_files
from jobs.live import progress
from jobs.models import Artifact, Job
from jobs.results import queries

MAX_LINES = 50
READ_BYTES = 16_384
MAX_CHARACTERS = 300
# The log of errors is shown if there is one, because it usually says why a job failed.
LOGS = (Artifact.Kind.STDERR_LOG, Artifact.Kind.STDOUT_LOG)


def last_lines(job: Job) -> list[str] | None:
    """Return the last lines of a running job's output, or of an ended job's stored log.

    Return None if there are none, or the storage is unavailable.
    """
    live = progress.log_entries_of(job)
    if live is not None:
        return [entry.message for entry in live[-MAX_LINES:]]
    stored = {artifact.kind: artifact for artifact in queries.artifacts_of(job) if artifact.bytes}
    found = next((stored[kind] for kind in LOGS if kind in stored), None)
    return None if found is None else _end_of(found)


def _end_of(log: Artifact) -> list[str] | None:
    start = max(0, log.bytes - READ_BYTES)
    try:
        content = b"".join(artifact_files.open_part(log, start=start, stop=log.bytes).chunks())
    except OSError:
        return None
    lines = content.decode(errors="replace").splitlines()[-MAX_LINES:]
    return ["".join(filter(str.isprintable, line.replace("\t", " ")))[:MAX_CHARACTERS] for line in lines]
