"""Documentation of operations: the parts of the OpenAPI document that views declare with `documented`.

These classes replace drf-spectacular's `extend_schema`, which supports no links, no shared examples, no webhook
headers and no views that are plain functions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from simservice.api.errors import ApiError
from simservice.api.scopes import Scope
from simservice.shapes import Count

View = TypeVar("View", bound=Callable[..., Any])
JSON = ("application/json",)
# Methods that change nothing
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a caller finds a value: in the response to the free example of another operation."""

    operation: str
    # JSON pointer (RFC 6901)
    pointer: str
    # Whether the value is only the last segment of the URL there
    is_last_segment: bool = False


@dataclass(frozen=True, kw_only=True)
class FreeExample:
    """A request that costs and changes nothing. Its path parameters are read from their sources."""

    summary: str
    query: str = ""
    media_type: str = ""
    body: Any = None


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A path, query or header parameter. `shape` is a type, as in a TypedDict, or a serializer field."""

    name: str
    location: str
    shape: Any
    description: str
    example: Any
    required: bool = False
    # Further OpenAPI keywords, such as `explode`.
    style: Mapping[str, Any] = field(default_factory=dict)
    # If not empty, the parameter stands for any number of parameters whose names begin with this.
    prefix: str = ""
    # For free examples, the source of a path parameter
    source: Source | None = None


@dataclass(frozen=True, kw_only=True)
class Header:
    """A response header."""

    name: str
    shape: Any
    description: str
    # Whether every response with this status has the header.
    always: bool = True


@dataclass(frozen=True, kw_only=True)
class Link:
    """An OpenAPI link: another operation whose parameters are runtime expressions on a response."""

    operation: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Body:
    """A request body of one media type. `shape` is a serializer class or a type."""

    shape: Any
    examples: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ResponseSpec:
    """A response that is not an error. Without a shape it has no body."""

    description: str
    shape: Any = None
    example: Any = None
    media_types: Sequence[str] = JSON
    headers: Sequence[Header] = ()
    links: Mapping[str, Link] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A method of a path. `errors` excludes those that every operation can return."""

    id: str
    tag: str
    summary: str
    description: str = ""
    parameters: Sequence[Parameter] = ()
    bodies: Mapping[str, Body] = field(default_factory=dict)
    # The response with the status 200, and others that are not errors
    returns: ResponseSpec
    also: Mapping[int, ResponseSpec] = field(default_factory=dict)
    errors: Sequence[type[ApiError]] = ()
    # The scope that a key needs. If None, `required_scope` decides.
    scope: Scope | None = None

    def required_scope(self, method: str) -> Scope:
        """Return the scope that a key needs. A change without a declared scope needs the highest."""
        return self.scope or (Scope.READ if method in SAFE_METHODS else Scope.MANAGE)

    # If there are none, an operation that only reads is its own example.
    free_examples: Sequence[FreeExample] = ()

    @property
    def query_names(self) -> frozenset[str]:
        """Return the names of the query parameters, except those with a prefix."""
        return frozenset(one.name for one in self.parameters if one.location == "query" and not one.prefix)

    @property
    def query_prefixes(self) -> tuple[str, ...]:
        """Return the prefixes of query parameters."""
        return tuple(one.prefix for one in self.parameters if one.location == "query" and one.prefix)


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """A request that the service sends to its clients."""

    id: str
    summary: str
    description: str
    headers: Sequence[Parameter]
    body: Body
    # By status or range of statuses: how the service handles the response.
    responses: Mapping[str, str]


# By kind of event. The package that sends the event adds its webhook here.
WEBHOOKS: dict[str, Webhook] = {}

REQUEST_ID = Header(
    name="X-Request-Id", shape=str, description="Identifies the request. Quote it when you contact support."
)
# On responses to requests that count against a limit. Omitted while Redis is unavailable.
RATE_LIMIT = [
    Header(name=name, shape=shape, description=description, always=False)
    for name, shape, description in (
        ("RateLimit-Policy", str, "The limits that the request counts against: quota `q`, window `w` in seconds."),
        ("RateLimit", str, "What is left of each limit: `r` requests or bytes, more in `t` seconds."),
        (
            "X-RateLimit-Limit",
            Count,
            "Maximum requests per minute. Submissions count per account, other requests per API key.",
        ),
        ("X-RateLimit-Remaining", Count, "Number of requests that are left now."),
        ("X-RateLimit-Reset", Count, "Unix time, in seconds, from which at least one more request is allowed."),
    )
]
RETRY_AFTER = Header(name="Retry-After", shape=Count, description="Seconds to wait before you try again.")
AUTHENTICATE = Header(name="WWW-Authenticate", shape=str, description="The authentication scheme: Bearer.")
SCOPE_NEEDED = replace(AUTHENTICATE, description="The scope that the request needs.", always=False)
# Headers of all errors with a status (docs/reference/api.md#response-headers).
STATUS_HEADERS: Mapping[int, Sequence[Header]] = {
    401: [AUTHENTICATE],
    403: [SCOPE_NEEDED],
    409: [replace(RETRY_AFTER, description="Seconds to wait, with `result_not_ready`.", always=False)],
    429: [RETRY_AFTER],
    503: [RETRY_AFTER],
}


def documented(operation: Operation) -> Callable[[View], View]:
    """Attach the documentation to a view function or method."""

    def mark(view: View) -> View:
        setattr(view, ATTRIBUTE, operation)
        return view

    return mark


ATTRIBUTE = "operation"


def operation_of(view: Any) -> Operation | None:
    """Return the documentation of a view function or method, None if it has none."""
    operation: Operation | None = getattr(view, ATTRIBUTE, None)
    return operation
