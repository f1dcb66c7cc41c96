"""What the OpenAPI document says of an operation, stated beside the view that answers it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from simservice.api.errors import ApiError
from simservice.api.shapes import Count

View = TypeVar("View", bound=Callable[..., Any])
JSON = ("application/json",)


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A part of the address, the query or the headers. `shape` is a type, as in a TypedDict, or a field."""

    name: str
    location: str
    shape: Any
    description: str
    example: Any
    required: bool = False
    # Further keywords, such as how a list is written.
    style: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Header:
    """A header of an answer."""

    name: str
    shape: Any
    description: str
    # Whether it is there every time.
    always: bool = True


@dataclass(frozen=True, kw_only=True)
class Link:
    """Another operation that takes its parameters from an answer, by runtime expressions of OpenAPI."""

    operation: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Body:
    """One form of the request's body: a serializer's class or a type."""

    shape: Any
    examples: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer that is no error. Without a shape it has no body."""

    description: str
    shape: Any = None
    example: Any = None
    media_types: Sequence[str] = JSON
    headers: Sequence[Header] = ()
    links: Mapping[str, Link] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one address. `errors` are those that not every operation has."""

    id: str
    tag: str
    summary: str
    description: str = ""
    parameters: Sequence[Parameter] = ()
    bodies: Mapping[str, Body] = field(default_factory=dict)
    answers: Mapping[int, Answer]
    errors: Sequence[type[ApiError]] = ()

    @property
    def query_names(self) -> frozenset[str]:
        """The names of the query parameters."""
        return frozenset(one.name for one in self.parameters if one.location == "query")


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """What the service itself sends to its clients' receivers."""

    id: str
    summary: str
    description: str
    headers: Sequence[Parameter]
    body: Body
    # What an answer of the receiver's means, by its status or range of them.
    answers: Mapping[str, str]


# By the kind of the event; whoever sends one says so here.
WEBHOOKS: dict[str, Webhook] = {}

REQUEST_ID = Header(name="X-Request-Id", shape=str, description="Names the request; quote it to ask for help.")
# On answers to whoever sent a key; left out while Redis does not answer: nobody counts then, and nobody is refused.
RATE_LIMIT = [
    Header(name=f"X-RateLimit-{name}", shape=Count, description=description, always=False)
    for name, description in (
        ("Limit", "Requests of this kind (submissions of the account, or others of the key) allowed a minute."),
        ("Remaining", "How many of them are left."),
        ("Reset", "When one more is allowed, in Unix seconds."),
    )
]
RETRY_AFTER = Header(name="Retry-After", shape=Count, description="Seconds to wait before the next try.")
AUTHENTICATE = Header(name="WWW-Authenticate", shape=str, description="The scheme to authenticate with: Bearer.")
# What answers of a status carry beside the request id (contract, section 1).
STATUS_HEADERS: Mapping[int, Sequence[Header]] = {401: [AUTHENTICATE], 429: [RETRY_AFTER], 503: [RETRY_AFTER]}


def documented(operation: Operation) -> Callable[[View], View]:
    """Say of a view, or of the method of one, what the document says of it."""

    def mark(view: View) -> View:
        setattr(view, ATTRIBUTE, operation)
        return view

    return mark


ATTRIBUTE = "operation"


def operation_of(view: Any) -> Operation | None:
    """Return what was said of a view, None when nothing was."""
    found: Operation | None = getattr(view, ATTRIBUTE, None)
    return found
