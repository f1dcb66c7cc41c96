"""How a try of a shard ended, as stored in its row."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from jobs.enums import Status
from jobs.lifecycle.job_moves import Outcome


@dataclass(frozen=True, kw_only=True)
class ShardResult:
    """The outcome that the job would have if this were its only shard, and the simulator's warnings.

    `stopped_for` is the `StopReason` for which the process was stopped, or None. `has_report` says whether the try
    stored a report.
    """

    status: Status
    error_code: str | None
    reason: str | None
    exit_code: str
    stopped_for: str | None
    has_report: bool
    warnings: Sequence[str]

    @property
    def outcome(self) -> Outcome:
        return Outcome(status=self.status, error_code=self.error_code, reason=self.reason, exit_code=self.exit_code)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, fields: dict[str, Any]) -> Self:
        return cls(**{**fields, "status": Status(fields["status"])})
