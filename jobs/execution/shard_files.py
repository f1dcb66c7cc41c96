"""Files of shards in the artifact storage: the report and the logs of one try, for the conductor to merge.

Their names contain the job, the attempt that created the stage, the stage, the shard and the try, so no two tries
share a file, and a later attempt finds them. They begin with the job's id, so retention removes those that a lost
conductor leaves behind.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from typing import Any, BinaryIO, Self

from jobs.artifacts import artifact_files
from jobs.enums import Status
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Artifact, ShardedStage
from simservice.storages import MAX_REMOVED_AT_ONCE

KINDS = (Artifact.Kind.JSON_REPORT, Artifact.Kind.STDOUT_LOG, Artifact.Kind.STDERR_LOG)


def name_of(
    stage: ShardedStage, kind: Artifact.Kind, *, number: int, try_number: int, attempt: int | None = None
) -> str:
    """Return the path of a try's file in the storage. Names contain the creator of the stage, if no `attempt`."""
    shard = f"{attempt or stage.creator}.{stage.stage}.shard.{number}.{try_number}"
    return f"{artifact_files.folder_of(stage.job_id)}/{stage.job_id}-{shard}-{kind}.gz"


def store(
    stage: ShardedStage, contents: Iterable[tuple[Artifact.Kind, BinaryIO]], *, number: int, try_number: int
) -> dict[str, str]:
    """Store the files of a try, and close them. Return the SHA-256 of each by its kind.

    Raises NotStored or WorkerStops.
    """
    names = {name_of(stage, kind, number=number, try_number=try_number): kind for kind in KINDS}
    name_by_kind = {kind: name for name, kind in names.items()}
    stored = artifact_files.store_files((name_by_kind[kind], content) for kind, content in contents)
    return {names[name].value: sha256 for name, sha256 in stored.items()}


def fetch(stage: ShardedStage, kind: Artifact.Kind, target: BinaryIO, *, number: int, try_number: int) -> None:
    """Copy a try's compressed file. Raises FileNotFoundError, or another OSError if the storage fails."""
    name = partial(name_of, stage, kind, number=number, try_number=try_number)
    try:
        artifact_files.copy_file(name(), target)
    except FileNotFoundError:
        if stage.attempt == stage.creator:
            raise
        # During an upgrade, a helper of a version without adoption names its files by the stage's attempt.
        artifact_files.copy_file(name(attempt=stage.attempt), target)


def remove(stage: ShardedStage, *, number: int, try_number: int) -> None:
    """Remove the files of a try, if the storage allows it."""
    artifact_files.remove([name_of(stage, kind, number=number, try_number=try_number) for kind in KINDS])


def remove_all(stage: ShardedStage, tries: Mapping[int, int]) -> None:
    """Remove the files of shards, given how many tries each had, if the storage allows it."""
    numbered = [(number, each) for number, count in tries.items() for each in range(1, count + 1)]
    names = iter(
        name_of(stage, kind, number=number, try_number=each) for number, each in numbered for kind in KINDS
    )
    while batch := list(islice(names, MAX_REMOVED_AT_ONCE)):
        artifact_files.remove(batch)


@dataclass(frozen=True, kw_only=True)
class ShardResult:
    """The outcome that the job would have if this were its only shard, and the simulator's warnings.

    `stopped_for` is the `StopReason` for which the process was stopped, or None. `has_report` says whether the try
    stored a report. `digests` are the SHA-256 of its files by kind, none in a stage of an older version.
    """

    status: Status
    error_code: str | None
    reason: str | None
    exit_code: str
    stopped_for: str | None
    has_report: bool
    warnings: Sequence[str]
    digests: Mapping[str, str] = field(default_factory=dict)

    @property
    def outcome(self) -> Outcome:
        return Outcome(status=self.status, error_code=self.error_code, reason=self.reason, exit_code=self.exit_code)

    def as_json(self) -> dict[str, Any]:
        fields = asdict(self)
        # A conductor of an older version, whose stages have no digests, accepts no other fields.
        return fields if self.digests else {name: fields[name] for name in fields.keys() - {"digests"}}

    @classmethod
    def of_json(cls, fields: dict[str, Any]) -> Self:
        return cls(**{**fields, "status": Status(fields["status"])})
