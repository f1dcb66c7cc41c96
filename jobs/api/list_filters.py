"""Query parameters of `GET /v1/{resource}/jobs` that select jobs."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated

from jobs.api.base import EXAMPLE_JOB_ID
from jobs.api.submission_request import (
    MAX_METADATA_ENTRIES,
    MAX_METADATA_KEY,
    MAX_METADATA_VALUE,
    STORABLE,
    is_storable,
    metadata_problem,
)
from jobs.enums import PublicStatus, Status
from jobs.results.listing import Filters
from simservice.api.errors import ValidationFailed
from simservice.api.operations import Parameter
from simservice.ids import parse_id
from simservice.shapes import Rule

MAX_IDS = 100
MAX_CLIENT_NAME = 64
METADATA_PREFIX = "metadata."
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
CLIENT = Parameter(
    name="client",
    location="query",
    shape=Annotated[str, Rule(minLength=1, maxLength=MAX_CLIENT_NAME, pattern=STORABLE)],
    description="Only jobs of the client with this name. If the account has no such client, the list is empty.",
    example="discord-bot",
)
METADATA = Parameter(
    name="metadata",
    location="query",
    prefix=METADATA_PREFIX,
    shape=Annotated[
        dict[str, Annotated[str, Rule(maxLength=MAX_METADATA_VALUE, pattern=STORABLE)]],
        Rule(
            maxProperties=MAX_METADATA_ENTRIES,
            propertyNames={"pattern": rf"^{re.escape(METADATA_PREFIX)}[^\u0000]{{1,{MAX_METADATA_KEY}}}$"},
        ),
    ],
    description=f"`{METADATA_PREFIX}<name>=<value>`: only jobs whose metadata has exactly this entry. Can be sent "
    f"for up to {MAX_METADATA_ENTRIES} names; jobs must have all these entries.",
    example={f"{METADATA_PREFIX}character": "Example"},
    style={"style": "form", "explode": True},
)
FILTERS = [STATUS, CLIENT, CREATED_AFTER, METADATA]
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
        client=_client(query["client"]) if "client" in query else None,
        created_after=_moment(query["createdAfter"]) if "createdAfter" in query else None,
        metadata=_metadata(query),
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


def _client(name: str) -> str:
    """Return the name of a client."""
    if not (1 <= len(name) <= MAX_CLIENT_NAME and is_storable(name)):
        message = f"Must have 1 to {MAX_CLIENT_NAME} characters and no NUL."
        raise ValidationFailed([{"path": "client", "message": message}])
    return name


def _metadata(query: Mapping[str, str]) -> dict[str, str]:
    """Return the entries that the metadata must have."""
    given = {name: value for name, value in query.items() if name.startswith(METADATA_PREFIX)}
    if len(given) > MAX_METADATA_ENTRIES:
        message = f"At most {MAX_METADATA_ENTRIES} entries can be searched for."
        raise ValidationFailed([{"path": "metadata", "message": message}])
    entries = {name.removeprefix(METADATA_PREFIX): value for name, value in given.items()}
    issues = [
        {"path": METADATA_PREFIX + name, "message": problem}
        for name, value in entries.items()
        if (problem := metadata_problem(name, value))
    ]
    if issues:
        raise ValidationFailed(issues)
    return entries


def _moment(text: str) -> datetime:
    """Return the time in the format of RFC 3339."""
    message = "Must be a time with a UTC offset, such as 2026-11-20T08:00:00Z."
    try:
        if MOMENT.fullmatch(text):
            return datetime.fromisoformat(text).astimezone(UTC)
    except OverflowError:
        message = "Must be between the years 1 and 9999 in UTC."
    except ValueError:
        pass
    raise ValidationFailed([{"path": "createdAfter", "message": message}])
