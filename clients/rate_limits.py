"""Rate limits per minute (`docs/reference/limits.md#limits`).

Submissions and their bytes are limited per account, other requests per API key, and requests without a key per IP
address. Requests are counted in Redis over the last 60 s. While Redis is unavailable, all requests are allowed.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
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

    def count_and_read(self, key: str, *, limit: int, period: int) -> tuple[bool, Counters]:
        """Count 1 if the limit allows it; return whether it does, and the counters."""
        keys = [self._previous_window_key(key), self._current_window_key(key)]
        reply: Any = self.count_and_read_script([self.prefixed_key(each) for each in keys], [limit, period, 1])
        previous, previous_left, current, current_left = (max(int(each or 0), 0) for each in reply[1:])
        return bool(reply[0]), Counters(previous, previous_left / 1000, current, current_left / 1000)


if TYPE_CHECKING:
    # Importing it at run time would be circular.
    from rest_framework.views import APIView

TIMEOUT_SECONDS = 0.5


class Limit(NamedTuple):
    """A limit: what is counted, for whom, and how many are allowed per minute."""

    kind: str
    subject: int | str
    item: RateLimitItemPerMinute
    scope: str = "developer"


@dataclass(frozen=True, kw_only=True)
class Window:
    """Count of the last minute, and the Unix time when the limit allows one more request."""

    used: int
    limit: int
    reset_at: int

    def headers(self) -> dict[str, str]:
        """Return the response headers (`docs/reference/api.md#response-headers`)."""
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(self.limit - self.used),
            "X-RateLimit-Reset": str(self.reset_at),
        }


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
                request.META[RATE_LIMIT_HEADERS] = window.headers()
            return True
        if request.method in getattr(view, "submission_methods", ()):
            spend(request, submission_limit(caller.account))
            spend_bytes(caller.account, length_of(request))
        elif request.method in getattr(view, "check_methods", ()):
            spend_check(request, caller.account)
        else:
            spend(request, _read_limit(caller))
        return True


def spend_check(request: HttpRequest | Request, account: Account) -> None:
    """Count a dry run and its bytes, apart from submissions, whose limits apply. Raises RateLimitExceeded."""
    spend(request, submission_limit(account)._replace(kind="checks"))
    spend_bytes(account, length_of(request), kind="checked_bytes")


def spend_more(request: HttpRequest | Request, account: Account, count: int) -> None:
    """Count further submissions in the same request, all or none. Raises RateLimitExceeded.

    A request with more submissions than the limit counts as the whole limit, so it is allowed if nothing else was
    sent for a minute.
    """
    limit = submission_limit(account)
    cost = min(count, limit.item.amount - 1)
    if cost <= 0:
        return
    is_allowed = _hit(limit, cost)
    if (counters := _read(limit)) is not None:
        request.META[RATE_LIMIT_HEADERS] = _window(limit, counters).headers()
    if not is_allowed:
        # The next attempt needs room for the request itself too.
        raise _refusal(limit, cost + 1)


def length_of(request: HttpRequest | Request) -> int:
    """Return the length of the request body in bytes."""
    return int(request.META.get("CONTENT_LENGTH") or 0)


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


def spend(request: HttpRequest | Request, limit: Limit) -> None:
    """Count a request and store the rate limit headers for its response. Raises RateLimitExceeded."""
    amount, period = limit.item.amount, limit.item.get_expiry()
    result = best_effort(lambda: _storage().count_and_read(_key(limit), limit=amount, period=period), default=None)
    if result is None:
        return
    is_allowed, counters = result
    request.META[RATE_LIMIT_HEADERS] = _window(limit, counters).headers()
    if not is_allowed:
        raise _refusal(limit)


def _key(limit: Limit) -> str:
    """Return the name of a limit's counters."""
    return limit.item.key_for(limit.kind, str(limit.subject))


def spend_bytes(account: Account, length: int, *, kind: str = "bytes") -> None:
    """Count the bytes of a submission, or of another kind of request. Raises RateLimitExceeded.

    A body larger than the limit counts as the whole limit, so it is allowed if nothing else was sent for a minute.
    """
    limit = Limit(kind, account.pk, RateLimitItemPerMinute(account.plan.submission_bytes_per_minute))
    cost = min(length, limit.item.amount)
    if cost and not _hit(limit, cost):
        raise _refusal(limit, cost)


def _hit(limit: Limit, cost: int = 1) -> bool:
    """Count against a limit; return whether it is allowed. Returns True while Redis is unavailable."""
    return best_effort(lambda: limiter().hit(limit.item, limit.kind, str(limit.subject), cost=cost), default=True)


def _refusal(limit: Limit, cost: int = 1) -> RateLimitExceeded:
    """Count a rejected request and return its error."""
    RATE_LIMITED.labels(limit.kind).inc()
    return RateLimitExceeded(
        {"scope": limit.scope, "limit": limit.kind}, headers={"Retry-After": str(wait_seconds(limit, cost))}
    )


def wait_seconds(limit: Limit, cost: int) -> int:
    """Return the seconds until the limit allows `cost` more, at least 1; 1 while Redis is unavailable.

    The count of the previous minute decreases linearly, and after that the count of the current minute.
    """
    counters, period = _read(limit), limit.item.get_expiry()
    if counters is None:
        return 1
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
    return Window(
        used=min(counters.used(period), limit.item.amount),
        limit=limit.item.amount,
        reset_at=max(math.ceil(now + counters.reset_in(period)), math.floor(now) + 1),
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
