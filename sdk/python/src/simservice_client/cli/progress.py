"""One line about a job that has not ended."""

from pathlib import Path

from simservice_client.cli.formats import duration, state, with_error
from simservice_client.cli.text import printable, shortened
from simservice_client.models import JobStatus

NAME_COLUMNS = 24
MIN_BAR, MAX_BAR = 10, 40


def progress_text(name: str, status: JobStatus, *, columns: int) -> str:
    """Return the state of a job, with a bar and the mean so far while it runs."""
    label = shortened(printable(Path(name).name), min(NAME_COLUMNS, columns // 3))
    if status.paused_at is not None:
        return f"{label}  paused"
    if status.status != "running":
        return f"{label}  {state(status.status)}{_start_text(status)}"
    facts = "  ".join(_facts(status))
    room = columns - len(label) - len(facts) - 16
    return f"{label}  {_bar(status.progress.percent, max(MIN_BAR, min(MAX_BAR, room)))}  {facts}"


def _start_text(status: JobStatus) -> str:
    """Return when a waiting job is expected to start."""
    seconds = status.queue.estimated_start_seconds if status.queue is not None else None
    return f", starts in about {duration(seconds)}" if seconds else ""


def _bar(percent: float, columns: int) -> str:
    share = min(max(percent / 100, 0.0), 1.0)
    done = round(share * columns)
    return f"[{'#' * done}{'-' * (columns - done)}] {100 * share:3.0f} %"


def _facts(status: JobStatus) -> list[str]:
    """Return the mean so far, the time left and the stage, as far as they are known."""
    facts, preview, stage = [], status.preview, status.progress.stage
    if preview is not None and preview.baseline is not None:
        facts.append(with_error(preview.baseline.mean, preview.baseline.mean_error))
    if preview is not None and preview.seconds_left is not None:
        facts.append(f"{duration(preview.seconds_left)} left")
    if stage is not None and stage.total > 1:
        facts.append(f"stage {stage.current}/{stage.total}")
    return facts
