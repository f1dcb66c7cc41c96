"""Pages that the owner of an account does not see: those of visitors, of a viewer, and of a service that fails."""

import base64
import hmac
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from tests.browser.chromium import Visitor
from tests.browser.newcomers import mailed_link
from tests.browser.site_data import ACCOUNT, LOGIN_PAGES, OWN, PAGES, SiteData, View, at
from tests.stack import Stack
from tests.web_server import web_server

VIEWER, PASSWORD = "onlooker", "a pair of eyes"
MAKE_VIEWER = f"""
from django.contrib.auth.models import User
from clients.models import Membership
from billing.models import Account
user = User.objects.create_user("{VIEWER}", "{VIEWER}@example.com", "{PASSWORD}")
Membership.objects.create(user=user, account=Account.objects.get(name="demo"), role="viewer")
"""
# Pages that offer an owner more
FOR_VIEWERS = ("overview", "jobs", "history", "clients", "credits", "people")
CODES = {
    "second-factor-on": OWN["second-factor"],
    "recovery-codes": "/accounts/2fa/recovery-codes/",
    "recovery-codes-new": "/accounts/2fa/recovery-codes/generate/",
    "second-factor-off": "/accounts/2fa/totp/deactivate/",
}


def of_visitors(stack: Stack) -> Iterator[View]:
    """Yield pages that only visitors who are not logged in see."""
    yield from (at(name, path) for name, path in LOGIN_PAGES.items())

    def sign_up(visitor: Visitor) -> None:
        visitor.open("/accounts/signup/")
        visitor.fill(email="newcomer@example.com")
        visitor.press("Send link")
        visitor.open(mailed_link(stack, "newcomer@example.com"))

    def reset(visitor: Visitor) -> None:
        visitor.open("/accounts/password/reset/")
        visitor.fill(email=f"{VIEWER}@example.com")
        visitor.press("Send link")
        visitor.open(mailed_link(stack, f"{VIEWER}@example.com"))

    yield View("sign-up-password", sign_up)
    yield View("reset-password", reset)


def of_a_viewer(data: SiteData) -> Iterator[View]:
    """Yield pages of a viewer, who turns on a second factor."""
    shared = {name: PAGES[name] for name in FOR_VIEWERS} | {"job": f"/jobs/{data.jobs['stages']}"}
    yield from (at(f"viewer-{name}", f"{ACCOUNT}{path}") for name, path in shared.items())
    yield at("viewer-client", data.clients["guild-bot"])
    yield at("forbidden", f"{ACCOUNT}/audit")
    yield View("form-expired", lose_cookie)
    yield View("recovery-codes-first", turn_on_second_factor)
    yield from (at(name, path) for name, path in CODES.items())
    yield View("second-factor-asked", log_in_again)


def make_viewer(stack: Stack) -> None:
    stack.manage("shell", "-c", MAKE_VIEWER)


def lose_cookie(visitor: Visitor) -> None:
    visitor.open("/accounts/logout/")
    visitor.context.clear_cookies(name="csrftoken")
    visitor.press("Log out")


def turn_on_second_factor(visitor: Visitor) -> None:
    visitor.open("/accounts/2fa/totp/activate/")
    visitor.fill(password=PASSWORD)
    visitor.press("Confirm")
    secret = visitor.page.locator("main li code").inner_text()
    visitor.fill(code=code_of(secret))
    visitor.press("Turn on")
    assert visitor.heading() == "Recovery codes"


def code_of(secret: str) -> str:
    """Return the code that an authenticator app shows now (RFC 6238)."""
    digest = hmac.digest(base64.b32decode(secret), (int(time.time()) // 30).to_bytes(8), "sha1")
    start = digest[-1] % 16
    return f"{int.from_bytes(digest[start : start + 4]) % 2**31 % 10**6:06}"


def log_in_again(visitor: Visitor) -> None:
    visitor.open("/accounts/logout/")
    visitor.press("Log out")
    visitor.log_in(VIEWER, PASSWORD)
    assert visitor.heading() == "Two-factor authentication"


@contextmanager
def failing_site(stack: Stack, log: Path) -> Iterator[tuple[str, list[View]]]:
    """Run another web server within the block, during maintenance; yield its address and its pages.

    Its database has no tables, which is an internal error, until it is gone, which is an outage.
    """
    empty = urlsplit(stack.ready["databaseUrl"])._replace(path="/empty").geturl()
    with psycopg.connect(stack.ready["databaseUrl"], autocommit=True) as connection:
        connection.execute("CREATE DATABASE empty")

    def lose_database(visitor: Visitor) -> None:
        with psycopg.connect(stack.ready["databaseUrl"], autocommit=True) as connection:
            connection.execute("DROP DATABASE IF EXISTS empty WITH (FORCE)")
        visitor.open(SHARED)

    # Its own database of Redis counts requests without those of the stack.
    redis = urlsplit(stack.ready["redisUrl"])._replace(path="/1").geturl()
    variables = {
        "SECRET_KEY": "any",
        "REDIS_URL": redis,
        "MAINTENANCE_SECONDS": "60",
        "PUBLIC_REQUESTS_PER_MINUTE": "2",
    }
    with web_server(log, database_url=empty, variables=variables) as web:
        yield (
            f"http://127.0.0.1:{web.port}",
            [
                at("maintenance", "/docs"),
                at("error-500", SHARED),
                View("error-503", lose_database),
                at("error-429", SHARED),
            ],
        )


SHARED = f"/share/{'x' * 22}"
