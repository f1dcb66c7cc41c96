"""Files under a share link that programs read: the reports, the profile and the output of a job.

`data.json` is the simulator's report with one more member, `simbot`, which says what the report is about
(docs/reference/api.md#report-data). It comes last, because parsers keep the last of several members with one name:
a report with its own `simbot` cannot replace it. So only the end of the stored report is read to build it, and
ranges of the rest are those of the stored file.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from typing import Any, Final

from jobs.artifacts import artifact_files, contents
from jobs.artifacts.contents import Content
from jobs.models import Artifact, Job
from jobs.results import queries

# More than the line break and the indentation before the last brace of any report
TAIL_BYTES = 1024


class DataFile(StrEnum):
    """A file under a share link."""

    DATA_JSON = "data.json"
    # The same file, for readers that expect a shortened report in the first one
    FULL_JSON = "data.full.json"
    DATA_CSV = "data.csv"
    INPUT = "input.txt"
    OUTPUT = "output.txt"
    HTML = "report.html"


class SimType(StrEnum):
    """What kind of simulation ran."""

    # One actor
    QUICK = "quick"
    # Several actors or profilesets
    ADVANCED = "advanced"
    # Profilesets in several stages
    MULTISTAGE = "multistage"


KINDS: Final = {
    DataFile.DATA_JSON: Artifact.Kind.JSON_REPORT,
    DataFile.FULL_JSON: Artifact.Kind.JSON_REPORT,
    DataFile.DATA_CSV: Artifact.Kind.CSV_REPORT,
    DataFile.OUTPUT: Artifact.Kind.STDOUT_LOG,
    DataFile.HTML: Artifact.Kind.HTML_REPORT,
}


class BrokenReport(ValueError):
    """The stored report is not a JSON object."""


def find(token: str, file: DataFile) -> tuple[Artifact | None, Callable[[], Content]] | None:
    """Return the artifact of a file of a share link and a function that returns its content, None if there is none.

    The function can read the storage, raise OSError, and raise BrokenReport for a JSON report. Two queries.
    """
    job = queries.find_shared(token, with_profile=True)
    if job is None or not job.is_terminal:
        return None
    shared = queries.shared_artifacts_of(job)
    profile = job.profile.text if queries.shares_profile(job, shared) and hasattr(job, "profile") else None
    if file == DataFile.INPUT:
        return None if profile is None else (None, lambda: _text(profile, name=file))
    artifact = main_artifact(shared, KINDS[file])
    if artifact is None:
        return None
    if KINDS[file] == Artifact.Kind.JSON_REPORT:
        about = about_report(job, profile=profile, in_stages=any(each.stage is not None for each in shared))
        return artifact, lambda: _with_member(artifact, "simbot", about, name=file)
    return artifact, lambda: contents.of_artifact(artifact, name=file)


def listed(job: Job, kinds: Collection[str]) -> list[DataFile]:
    """Return the files under the share link of a job, given the kinds of the artifacts that the link lists."""
    needed = KINDS | {DataFile.INPUT: Artifact.Kind.INPUT}
    hidden = {DataFile.FULL_JSON, *([DataFile.INPUT] if job.has_credentials else [])}
    return [each for each in DataFile if job.is_terminal and needed[each] in kinds and each not in hidden]


def main_artifact(artifacts: Sequence[Artifact], kind: Artifact.Kind) -> Artifact | None:
    """Return the artifact of a kind without a stage, or else that of the last stage."""
    of_kind = [each for each in artifacts if each.kind == kind]
    return max(of_kind, key=lambda each: (each.stage is None, each.stage or 0), default=None)


def about_report(job: Job, *, profile: str | None, in_stages: bool) -> dict[str, Any]:
    """Return the `simbot` member of an ended job's report, with the profile if the share link shows it."""
    ended = job.completed_at or job.created_at
    build = job.build
    return {
        "simType": sim_type(job, in_stages=in_stages),
        "title": job.public_title,
        "publicTitle": job.public_title,
        "player": job.character,
        # Readers expect milliseconds since 1970.
        "date": int(ended.timestamp() * 1000),
        "hasFullJson": False,
        "input": profile,
        "meta": {
            "status": job.public_status,
            "partial": job.is_partial,
            "gitBranch": job.git_branch,
            "gitRevision": build.commit if build else None,
            "simcVersion": build.simc_version if build else None,
        },
    }


def sim_type(job: Job, *, in_stages: bool) -> SimType:
    """Return what kind of simulation an ended job was, from what ran."""
    if in_stages:
        return SimType.MULTISTAGE
    summary = job.summary or {}
    has_variants = "profilesets" in (summary.get("mainActor") or {})
    missed_variants = summary.get("not_reached", {}).get("profilesets", 0)
    # A job without a summary has only the number of actors in its profile.
    has_several = "actors" in summary or job.other_characters
    return SimType.ADVANCED if has_variants or missed_variants or has_several else SimType.QUICK


def _text(text: str, *, name: str) -> Content:
    """Return a text as a file."""
    added = text.encode()
    return Content(
        digest=hashlib.sha256(added).hexdigest(), name=name, mime_type="text/plain; charset=utf-8", added=added
    )


def _with_member(report: Artifact, member: str, value: Any, *, name: str) -> Content:
    """Return a stored JSON object with one more member at its end. Raises OSError or BrokenReport."""
    kept, separator = _end_of(report)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    added = f'{separator}"{member}":{text}}}'.encode()
    digest = hashlib.sha256(report.sha256.encode() + added).hexdigest()
    return Content(digest=digest, name=name, mime_type=report.mime_type, artifact=report, kept=kept, added=added)


def _end_of(report: Artifact) -> tuple[int, str]:
    """Return where the members of a stored JSON object end, and what separates them from another one.

    Raises OSError or BrokenReport.
    """
    start = max(0, report.bytes - TAIL_BYTES)
    tail = b"".join(artifact_files.open_part(report, start=start, stop=report.bytes).chunks()).rstrip()
    members = tail.removesuffix(b"}").rstrip()
    if not tail.endswith(b"}") or not members:
        raise BrokenReport
    return start + len(members), "" if members == b"{" else ","
