"""The preview of a running job's results, from the output of its simulators and the reports of ended ones.

It is in Redis: `jobs.live.progress` writes it with the progress, at most once a second. It expires and may be lost.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from jobs.enums import Status
from jobs.models import Job
from simservice.redis.client import best_effort, redis

LISTED_PROFILESETS = 50
DEFAULT_METRIC = "dps"


@dataclass(frozen=True, kw_only=True)
class Figures:
    """A mean; `error` is half the width of its 95 % confidence interval, 0 if unknown."""

    mean: float
    error: float


@dataclass(frozen=True, kw_only=True)
class RankedProfileset(Figures):
    """A finished profileset, and the last stage that made its figures more precise."""

    name: str
    stage: int


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What is known of a result before the job ends.

    `seconds_left` and `baseline` are None while unknown. `finished` of `count` profilesets of the current stage are
    finished. `best` are up to 50 profilesets, those of earlier stages included, the highest mean first. `metric` is
    that of all means.
    """

    seconds_left: int | None
    baseline: Figures | None
    finished: int
    count: int
    best: Sequence[RankedProfileset]
    metric: str = DEFAULT_METRIC
    # In seconds since 1970; previews are equal if all else is equal.
    updated_at: float = field(default_factory=time.time, compare=False)

    def as_json(self, *, clean: Callable[[str], str]) -> str:
        """Return the preview for Redis; `clean` removes secrets from names."""
        best = [replace(entry, name=clean(entry.name)) for entry in self.best]
        fields = asdict(replace(self, best=best))
        if self.metric == DEFAULT_METRIC:
            # Web processes of an earlier version do not know it.
            del fields["metric"]
        return json.dumps(fields, ensure_ascii=False)


def preview_key_of(job: Job) -> str:
    """Return the Redis key of the preview of an attempt."""
    return f"preview:{job.pk}:{job.attempt}"


def preview_of(job: Job) -> Preview | None:
    """Return the last published preview of a running job, None if there is none."""
    if job.status != Status.RUNNING:
        return None
    stored = best_effort(lambda: redis().get(preview_key_of(job)), default=None)
    if stored is None:
        return None
    fields: dict[str, Any] = json.loads(str(stored))
    baseline = fields.pop("baseline")
    best = [RankedProfileset(**entry) for entry in fields.pop("best")]
    return Preview(**fields, baseline=baseline and Figures(**baseline), best=best)
