"""How many requests a caller may make a minute: submissions and their bytes for each account, reads for each key,
and requests without a key for each address.

Counted in Redis over the last sixty seconds. While Redis does not answer, nothing is counted and nobody is refused.
"""

import math
import time
from dataclasses import dataclass
from functools import cache, wraps
from ipaddress import IPv4Address, ip_address, ip_network
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
from simservice.api.addresses import client_address
from simservice.api.errors import RateLimitExceeded
from simservice.api.methods import View
from simservice.api.middleware import RATE_LIMIT_HEADERS
from simservice.metrics import RATE_LIMITED
from simservice.redis.client import ask
from simservice.web.error_pages import error_answer

if TYPE_CHECKING:
    # At run time the module of views loads this one.
    from rest_framework.views import APIView

TIMEOUT_SECONDS = 0.5


class Limit(NamedTuple):
    """What is counted, for whom, and how many are allowed a minute."""

    kind: str
    who: int | str
    item: RateLimitItemPerMinute
    scope: str = "developer"


@dataclass(frozen=True, kw_only=True)
class Window:
    """A limit's count of the last minute, and the Unix time from which it allows one more request."""

    used: int
    limit: int
    reset_at: int

    def headers(self) -> dict[str, str]:
        """Return the window as response headers (contract, section 1)."""
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(self.limit - self.used),
            "X-RateLimit-Reset": str(self.reset_at),
        }


class RateLimits(BaseThrottle):
    """Counts each authenticated request, right after its authentication and before its body is read.

    A view names the methods that submit jobs in `submission_methods`; every other request is a read.
    """

    def allow_request(self, request: Request, view: "APIView") -> bool:
        """Return True, or raise RateLimitExceeded."""
        caller = request.user
        if not isinstance(caller, Caller):
            return True
        if request.method in getattr(view, "submission_methods", ()):
            spend(request, submission_limit(caller.account))
            spend_bytes(caller.account, length_of(request))
        else:
            spend(request, read_limit(caller))
        return True


def length_of(request: HttpRequest | Request) -> int:
    """Return the length of a request's body in bytes: as declared, or as received in chunks."""
    return int(request.META.get("CONTENT_LENGTH") or 0)


def submission_limit(account: Account) -> Limit:
    """Return the limit of the submissions of all the account's keys, and of its people, together."""
    return Limit("submissions", account.pk, RateLimitItemPerMinute(account.plan.submissions_per_minute))


def byte_limit(account: Account) -> Limit:
    """Return the limit on the bytes of those submissions."""
    return Limit("bytes", account.pk, RateLimitItemPerMinute(account.plan.submission_bytes_per_minute))


def read_limit(caller: Caller) -> Limit:
    """Return the limit of the key's other requests."""
    return Limit("reads", caller.key.pk, RateLimitItemPerMinute(caller.plan.reads_per_minute))


def limited_by_address(view: View) -> View:
    """Count the requests of a view that needs no key, and refuse those over their address's limit."""

    @wraps(view)
    def limited(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            if address := client_address(request):
                spend(request, public_limit(address))
        except RateLimitExceeded as error:
            return error_answer(request, error)
        return view(request, *args, **kwargs)

    return limited


def public_limit(address: str) -> Limit:
    """Return the limit that an address shares with its network."""
    item = RateLimitItemPerMinute(settings.PUBLIC_REQUESTS_PER_MINUTE)
    return Limit("public", network_of(address), item, scope="address")


def network_of(address: str) -> str:
    """Return a subscriber's network: an IPv4 address, or the first 64 bits of an IPv6 address."""
    parsed = ip_address(address)
    ipv4 = parsed if isinstance(parsed, IPv4Address) else parsed.ipv4_mapped
    return str(ipv4 or ip_network((int(parsed) >> 64 << 64, 64)))


def spend(request: HttpRequest | Request, limit: Limit) -> None:
    """Count a request, and leave the window for the response's headers. Raises RateLimitExceeded."""
    allowed = hit(limit)
    window = window_of(limit)
    if window is None:
        return
    request.META[RATE_LIMIT_HEADERS] = window.headers()
    if not allowed:
        raise refusal(limit)


def spend_bytes(account: Account, length: int) -> None:
    """Count the bytes of a submission. Raises RateLimitExceeded.

    A body larger than the limit uses all of it, so it passes if nothing else was sent for a minute.
    """
    limit = byte_limit(account)
    cost = min(length, limit.item.amount)
    if cost and not hit(limit, cost):
        raise refusal(limit, cost)


def hit(limit: Limit, cost: int = 1) -> bool:
    """Count against a limit; return whether it allows that. It always does while Redis does not answer."""
    return ask(lambda: limiter().hit(limit.item, limit.kind, str(limit.who), cost=cost), otherwise=True)


def refusal(limit: Limit, cost: int = 1) -> RateLimitExceeded:
    """Return the error for a request over a limit."""
    RATE_LIMITED.labels(limit.kind).inc()
    return RateLimitExceeded(
        {"scope": limit.scope, "limit": limit.kind}, headers={"Retry-After": str(wait_seconds(limit, cost))}
    )


def wait_seconds(limit: Limit, cost: int) -> int:
    """Return in how many seconds the limit allows `cost` more: at least 1, and 1 if Redis does not answer.

    The count of the previous minute fades evenly; after that, so does the count of this one.
    """
    storage = cast(RedisStorage, limiter().storage)
    key, period = limit.item.key_for(limit.kind, str(limit.who)), limit.item.get_expiry()
    window = ask(lambda: storage.get_sliding_window(key, period), otherwise=None)
    if window is None:
        return 1
    previous, previous_left, current, current_left = window
    # The counter rounds the fading part down, so it may be anything below this.
    room = limit.item.amount - cost + 1
    if current < room:
        wait = previous_left - period * (room - current) / previous if previous else 0
    else:
        wait = current_left - period * room / current
    return max(math.ceil(wait), 1)


def reads(caller: Caller) -> Window | None:
    """Return what the caller's key has read in the last minute; None when Redis does not answer."""
    return window_of(read_limit(caller))


def window_of(limit: Limit) -> Window | None:
    """Return what a limit has counted, or None when Redis does not answer."""
    stats = ask(lambda: limiter().get_window_stats(limit.item, limit.kind, str(limit.who)), otherwise=None)
    if stats is None:
        return None
    now = time.time()
    return Window(
        used=limit.item.amount - stats.remaining,
        limit=limit.item.amount,
        reset_at=max(math.ceil(stats.reset_time), math.floor(now) + 1),
    )


@cache
def limiter() -> SlidingWindowCounterRateLimiter:
    """Return the process's counter. It waits for Redis less long than others do: every request asks it."""
    storage = RedisStorage(
        settings.REDIS_URL, socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS
    )
    return SlidingWindowCounterRateLimiter(storage)
