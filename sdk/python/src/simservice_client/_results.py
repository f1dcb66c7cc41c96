"""What most programs want to know of a result, and the answer to a cancellation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, cast

from simservice_client._json import Model, key
from simservice_client.errors import NoFigures

if TYPE_CHECKING:
    from simservice_client.models import MainActor, ManifestResult, ProfilesetFigures, Result, Summary, Verdict


class WithFigures:
    """Shortcuts to the figures of a result."""

    @property
    def summary(self) -> Summary | None:
        """The main figures. None if the simulator wrote no report."""
        result: Result | ManifestResult = cast(Any, self).result
        return result.summary

    @property
    def verdict(self) -> Verdict | None:
        """What the result says, such as "Best: Ring B, +2.5 % ± 0.2". None without a result."""
        result: Result | ManifestResult = cast(Any, self).result
        return result.verdict

    @property
    def main_actor(self) -> MainActor:
        """Figures of the profile's main actor. Raises NoFigures if there are none."""
        if self.summary is None or self.summary.main_actor is None:
            raise NoFigures("The result has no main actor: see `summary.actors`, or the job's `status_reason`.")
        return self.summary.main_actor

    @property
    def mean(self) -> float:
        """The mean of the main actor, usually damage per second. Raises NoFigures if there is none."""
        return self.main_actor.mean

    @property
    def ranking(self) -> list[ProfilesetFigures]:
        """Up to 200 profilesets, best first. Raises NoFigures if there is no main actor."""
        profilesets = self.main_actor.profilesets
        return [] if profilesets is None else profilesets.results


@dataclass(frozen=True, kw_only=True)
class Cancellation(Model):
    """A cancelled job, or a running one that was asked to stop."""

    id: str
    status: Literal["cancelled", "cancel_requested"]
    cancel_requested_at: datetime | None = key("cancelRequestedAt", default=None)
    metadata: dict[str, str]
