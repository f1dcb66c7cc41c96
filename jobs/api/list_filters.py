"""Query parameters of `GET /v1/{resource}/jobs` that select jobs."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated

from jobs.api.base import EXAMPLE_JOB_ID
from jobs.enums import PublicStatus, Status
from jobs.queries import Filters
from simservice.api.errors import ValidationFailed
from simservice.api.operations import Parameter
from simservice.api.shapes import Rule
from simservice.ids import parse_id

MAX_IDS = 100
MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)
_STATUS = f"({'|'.join(PublicStatus.values)})"
STATUS = Parameter(
    name="status",
    location="query",
    shape=Annotated[str, Rule(pattern=f"^{_STATUS}(,{_STATUS})*$")],
    description="Only jobs with one of these statuses, separated by commas.",
    example="completed,failed",
)
CREATED_AFTER = Parameter(
    name="createdAfter",
    location="query",
    shape=Annotated[str, Rule(format="date-time")],
    description="Only jobs created at this time or later, with a UTC offset or `Z`.",
    example="2026-11-20T08:00:00Z",
)
IDS = Parameter(
    name="ids",
    location="query",
    shape=Annotated[str, Rule(pattern=f"^[0-9]{{18}}(,[0-9]{{18}}){{0,{MAX_IDS - 1}}}$")],
    description=f"Only the jobs with these ids, separated by commas, at most {MAX_IDS}. Ids that the account does "
    "not have are ignored. Cannot be combined with other parameters.",
    example=EXAMPLE_JOB_ID,
)


def read_filters(query: Mapping[str, str]) -> Filters:
    """Return the filters of a request. Raises ValidationFailed."""
    return Filters(
        statuses=_statuses(query["status"]) if "status" in query else frozenset(),
        created_after=_moment(query["createdAfter"]) if "createdAfter" in query else None,
    )


def read_ids(query: Mapping[str, str]) -> set[int]:
    """Return the ids of a request that has `ids`. Raises ValidationFailed."""
    others = [name for name in query if name != "ids"]
    if others:
        raise ValidationFailed([{"path": name, "message": "Cannot be combined with `ids`."} for name in others])
    texts = query["ids"].split(",", MAX_IDS)
    ids = {number for text in texts if (number := parse_id(text)) is not None}
    if len(texts) > MAX_IDS or len(ids) < len(set(texts)):
        message = f"Must be 1 to {MAX_IDS} ids of 18 digits, separated by commas."
        raise ValidationFailed([{"path": "ids", "message": message}])
    return ids


def _statuses(text: str) -> frozenset[Status]:
    """Return the statuses that callers see as one of the given ones."""
    names = set(text.split(","))
    if not names <= set(PublicStatus.values):
        message = f"Must be one or more of {', '.join(PublicStatus.values)}, separated by commas."
        raise ValidationFailed([{"path": "status", "message": message}])
    starting = {Status.STARTING} if PublicStatus.QUEUED in names else set()
    return frozenset(starting | {Status(name) for name in names})


def _moment(text: str) -> datetime:
    """Return the time in the format of RFC 3339."""
    try:
        if MOMENT.fullmatch(text):
            return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    message = "Must be a time with a UTC offset, such as 2026-11-20T08:00:00Z."
    raise ValidationFailed([{"path": "createdAfter", "message": message}])
