"""Rate limits per minute (`docs/reference/limits.md#limits`).

Submissions and their bytes are limited per account, other requests per API key, and requests without a key per IP
address. Requests are counted in Redis over the last 60 s. While Redis is unavailable, all requests are allowed.

A response describes every limit that its request counts against, with the counts at that request.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from limits import RateLimitItemPerMinute
from limits.storage import RedisStorage
from limits.strategies import SlidingWindowCounterRateLimiter
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from billing.models import Account
from clients.authentication import Caller
from simservice.api.addresses import client_address, network_of
from simservice.api.errors import RateLimitExceeded
from simservice.api.methods import View
from simservice.api.middleware import RATE_LIMIT_HEADERS
from simservice.redis.client import best_effort
from simservice.telemetry.metrics import RATE_LIMITED
from simservice.web.error_pages import render_error
from simservice.web.waiting import WAITED

# Both parts are scripts of `limits`. The second one reads the counters after the first one has counted.
COUNT_AND_READ = f"""
local function count() {RedisStorage.SCRIPT_ACQUIRE_SLIDING_WINDOW.decode()} end
local function read(ARGV) {RedisStorage.SCRIPT_SLIDING_WINDOW.decode()} end
local is_allowed = count()
return {{is_allowed, unpack(read({{ARGV[2]}}))}}
"""


class Counters(NamedTuple):
    """The counts of the previous and the current period, each with the seconds until it expires."""

    previous: int
    previous_left: float
    current: int
    current_left: float

    def used(self, period: int) -> int:
        """Return the count of the last `period` seconds, in which the previous count decreases linearly."""
        return math.floor(self.previous * self.previous_left / period) + self.current

    def reset_in(self, period: int) -> float:
        """Return the seconds until the limit allows one more, 0 if nothing is counted."""
        waits = [self.previous_left % (period / self.previous)] if self.previous else []
        if self.current:
            # It expires after two periods. In `limits`, a count made just now would allow one more at once.
            waits.append(max(self.current_left - period, 0))
        return min(waits, default=0)


class CountingStorage(RedisStorage):
    """The storage of `limits` in Redis, with one more script."""

    # `limits` does not choose this class by a URL.
    STORAGE_SCHEME = None  # type: ignore[assignment]

    def initialize_storage(self, uri: str) -> None:
        super().initialize_storage(uri)
        self.count_and_read_script = self.get_connection().register_script(COUNT_AND_READ.encode())

    def count_and_read(self, key: str, *, limit: int, period: int, cost: int) -> tuple[bool, Counters]:
        """Count `cost` if the limit allows it; return whether it does, and the counters."""
        keys = [self._previous_window_key(key), self._current_window_key(key)]
        reply: Any = self.count_and_read_script([self.prefixed_key(each) for each in keys], [limit, period, cost])
        previous, previous_left, current, current_left = (max(int(each or 0), 0) for each in reply[1:])
        return bool(reply[0]), Counters(previous, previous_left / 1000, current, current_left / 1000)


if TYPE_CHECKING:
    # Importing it at run time would be circular.
    from rest_framework.views import APIView

TIMEOUT_SECONDS = 0.5


class Limit(NamedTuple):
    """A limit: what is counted, for whom, and how much is allowed per minute."""

    kind: str
    subject: int | str
    item: RateLimitItemPerMinute
    scope: str = "developer"
    counts_bytes: bool = False


@dataclass(frozen=True, kw_only=True)
class Window:
    """A limit's count of the last minute, and when the limit allows more."""

    limit: Limit
    used: int
    # Seconds until the limit allows one more, or the cost that it has just refused
    wait: int
    # The Unix time at which the limit allows one more
    reset_at: int

    @property
    def remaining(self) -> int:
        """Return how much is left of the limit."""
        return self.limit.item.amount - self.used

    def policy(self) -> str:
        """Return the member of `RateLimit-Policy`. The default unit is requests."""
        unit = ';qu="content-bytes"' if self.limit.counts_bytes else ""
        return f'"{self.limit.kind}";q={self.limit.item.amount}{unit};w={self.limit.item.get_expiry()}'

    def state(self) -> str:
        """Return the member of `RateLimit`."""
        return f'"{self.limit.kind}";r={self.remaining};t={self.wait}'


# Key in `request.META` of the windows that its response describes, by kind
WINDOWS = "RATE_LIMIT_WINDOWS"


def describe(request: HttpRequest | Request, window: Window) -> None:
    """Describe a window in the response's headers (`docs/reference/limits.md#rate-limit-headers`)."""
    windows: dict[str, Window] = request.META.setdefault(WINDOWS, {})
    windows[window.limit.kind] = window
    headers: dict[str, str] = request.META.setdefault(RATE_LIMIT_HEADERS, {})
    headers["RateLimit-Policy"] = ", ".join(each.policy() for each in windows.values())
    headers["RateLimit"] = ", ".join(each.state() for each in windows.values())
    if not window.limit.counts_bytes:
        headers["X-RateLimit-Limit"] = str(window.limit.item.amount)
        headers["X-RateLimit-Remaining"] = str(window.remaining)
        headers["X-RateLimit-Reset"] = str(window.reset_at)


class RateLimits(BaseThrottle):
    """Limit authenticated requests before their body is read.

    A view lists the methods that submit jobs in `submission_methods`, and those that only check a submission in
    `check_methods`; all other requests are reads.
    """

    def allow_request(self, request: Request, view: "APIView") -> bool:
        """Return True. Raises RateLimitExceeded. A request that has waited was counted when it arrived."""
        caller = request.user
        if not isinstance(caller, Caller):
            return True
        if WAITED in request.META:
            if window := reads(caller):
                describe(request, window)
            return True
        if request.method in getattr(view, "submission_methods", ()):
            spend(request, submission_limit(caller.account))
            spend_bytes(request, caller.account)
        elif request.method in getattr(view, "check_methods", ()):
            spend_check(request, caller.account)
        else:
            spend(request, _read_limit(caller))
        return True


def spend_check(request: HttpRequest | Request, account: Account) -> None:
    """Count a dry run and its bytes, apart from submissions, whose limits apply. Raises RateLimitExceeded."""
    spend(request, submission_limit(account)._replace(kind="checks"))
    spend_bytes(request, account, kind="checked_bytes")


def spend_more(request: HttpRequest | Request, account: Account, count: int) -> None:
    """Count further submissions in the same request, all or none. Raises RateLimitExceeded.

    A request with more submissions than the limit counts as the whole limit, so it is allowed if nothing else was
    sent for a minute.
    """
    limit = submission_limit(account)
    cost = min(count, limit.item.amount - 1)
    if cost > 0:
        # The next attempt needs room for the request itself too.
        spend(request, limit, cost, next_cost=cost + 1)


def submission_limit(account: Account) -> Limit:
    """Return the account's limit of submissions by API and dashboard."""
    return Limit("submissions", account.pk, RateLimitItemPerMinute(account.plan.submissions_per_minute))


def _read_limit(caller: Caller) -> Limit:
    return Limit("reads", caller.key.pk, RateLimitItemPerMinute(caller.plan.reads_per_minute))


def limited_by_address(view: View) -> View:
    """Limit the requests of a view without authentication per IP address."""

    @wraps(view)
    def limited(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            if address := client_address(request):
                item = RateLimitItemPerMinute(settings.PUBLIC_REQUESTS_PER_MINUTE)
                spend(request, Limit("public", network_of(address), item, scope="address"))
        except RateLimitExceeded as error:
            return render_error(request, error)
        return view(request, *args, **kwargs)

    return limited


class FormLimitMiddleware:
    """Limits the forms that a logged-in user submits, on every page."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *_: object) -> HttpResponseBase | None:
        """Refuse a form above the limit, after its CSRF token was checked."""
        if request.method != "POST" or not request.user.is_authenticated:
            return None
        item = RateLimitItemPerMinute(settings.FORMS_PER_MINUTE)
        try:
            spend(request, Limit("forms", request.user.pk, item, scope="user"))
        except RateLimitExceeded as error:
            return render_error(request, error)
        return None


def spend(request: HttpRequest | Request, limit: Limit, cost: int = 1, *, next_cost: int | None = None) -> None:
    """Count a request, or its bytes, and describe the limit in the response. Raises RateLimitExceeded.

    `next_cost` is what the next attempt will cost, if it differs.
    """
    amount, period, key = limit.item.amount, limit.item.get_expiry(), _key(limit)
    result = best_effort(
        lambda: _storage().count_and_read(key, limit=amount, period=period, cost=cost), default=None
    )
    if result is None:
        return
    is_allowed, counters = result
    window = _window(limit, counters)
    if is_allowed:
        describe(request, window)
        return
    wait = wait_seconds(limit, counters, next_cost or cost)
    describe(request, replace(window, wait=wait))
    RATE_LIMITED.labels(limit.kind).inc()
    raise RateLimitExceeded({"scope": limit.scope, "limit": limit.kind}, headers={"Retry-After": str(wait)})


def _key(limit: Limit) -> str:
    """Return the name of a limit's counters."""
    return limit.item.key_for(limit.kind, str(limit.subject))


def spend_bytes(request: HttpRequest | Request, account: Account, *, kind: str = "bytes") -> None:
    """Count the bytes of a submission, or of another kind of request. Raises RateLimitExceeded.

    A body larger than the limit counts as the whole limit, so it is allowed if nothing else was sent for a minute.
    """
    item = RateLimitItemPerMinute(account.plan.submission_bytes_per_minute)
    if length := length_of(request):
        spend(request, Limit(kind, account.pk, item, counts_bytes=True), min(length, item.amount))


def length_of(request: HttpRequest | Request) -> int:
    """Return the length of a request's body as sent, in bytes."""
    return int(request.META.get("CONTENT_LENGTH") or 0)


def wait_seconds(limit: Limit, counters: Counters, cost: int) -> int:
    """Return the seconds until the limit allows `cost` more, at least 1.

    The count of the previous minute decreases linearly, and after that the count of the current minute.
    """
    period = limit.item.get_expiry()
    previous, previous_left, current, current_left = counters
    # The counter rounds the decreasing part down, so any value below this is enough.
    room = limit.item.amount - cost + 1
    if current < room:
        wait = previous_left - period * (room - current) / previous if previous else 0
    else:
        wait = current_left - period * room / current
    return max(math.ceil(wait), 1)


def reads(caller: Caller) -> Window | None:
    """Return the window of the API key's reads, or None while Redis is unavailable."""
    limit = _read_limit(caller)
    counters = _read(limit)
    return None if counters is None else _window(limit, counters)


def _read(limit: Limit) -> Counters | None:
    """Return the counters of a limit, or None while Redis is unavailable."""
    key, period = _key(limit), limit.item.get_expiry()
    return best_effort(lambda: Counters(*_storage().get_sliding_window(key, period)), default=None)


def _window(limit: Limit, counters: Counters) -> Window:
    now, period = time.time(), limit.item.get_expiry()
    wait = counters.reset_in(period)
    return Window(
        limit=limit,
        used=min(counters.used(period), limit.item.amount),
        wait=max(math.ceil(wait), 1),
        reset_at=max(math.ceil(now + wait), math.floor(now) + 1),
    )


def _storage() -> CountingStorage:
    return cast(CountingStorage, limiter().storage)


@cache
def limiter() -> SlidingWindowCounterRateLimiter:
    """Return the counter of this process. Its timeout is short, because every request waits for it."""
    storage = CountingStorage(
        settings.REDIS_URL, socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS
    )
    return SlidingWindowCounterRateLimiter(storage)
