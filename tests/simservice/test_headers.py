"""Security headers of responses, and Django's deployment checks for production settings."""

import os
import subprocess
import sys

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client as HttpClient

from jobs.api.downloads import SAFE_HEADERS
from simservice.web.middleware import POLICY
from tests.factories import make_member
from tests.routes import World, world

__all__ = ["world"]
pytestmark = pytest.mark.django_db
PRODUCTION = {
    "SECRET_KEY": "0123456789abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "ALLOWED_HOSTS": "example.org",
    "TRUSTED_PROXIES": "1",
    "SSL_REDIRECT": "true",
    "HSTS_SECONDS": "31536000",
    "HSTS_SUBDOMAINS": "true",
    "HSTS_PRELOAD": "true",
    "PUBLIC_BASE_URL": "https://example.org",
    "SANDBOX": "required",
    "EMAIL_URL": "smtp+tls://user:password@mail.example.org:587",
}


@pytest.mark.slow
def test_production_settings_pass_djangos_checks() -> None:
    environment = {**os.environ, **PRODUCTION}
    command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "INFO"]
    done = subprocess.run(
        command, cwd=settings.BASE_DIR, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (
        0,
        "System check identified no issues (0 silenced).\n",
    )


@pytest.mark.parametrize("path", ["/", "/docs", "/accounts/login/", "/nowhere", "/v1/openapi.json"])
def test_pages_load_nothing_from_other_hosts(path: str) -> None:
    headers = HttpClient().get(path).headers
    assert headers["Content-Security-Policy"] == POLICY
    assert headers.get("X-Frame-Options", "DENY") == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"


@pytest.mark.parametrize("forbidden", ["unsafe", "http", "*", "script-src 'self' "])
def test_the_policy_allows_no_script_in_a_page(forbidden: str) -> None:
    assert forbidden not in POLICY
    assert "frame-ancestors 'none'" in POLICY
    assert "default-src 'none'" in POLICY


def test_a_report_keeps_its_own_policy(world: World) -> None:
    response = HttpClient().get(f"/artifacts/{world.artifact.token}")
    assert b"".join(response.streaming_content) == b"{}"  # type: ignore[attr-defined]
    assert {name: response.headers[name] for name in SAFE_HEADERS} == SAFE_HEADERS


def test_pages_contain_no_inline_scripts_or_styles() -> None:
    owner = make_member()
    http = HttpClient()
    http.force_login(owner.user)
    pages = ["", "clients", "credits", "usage", "people"]
    paths = [
        *(f"/dashboard/{owner.account}/{page}" for page in pages),
        "/",
        "/accounts/profile/",
        "/accounts/sessions/",
    ]
    for path in paths:
        text = http.get(path).content.decode()
        assert "<style" not in text
        assert " style=" not in text
        assert not [part for part in text.split("<script")[1:] if " src=" not in part.split(">")[0]]
        assert "//" not in text.replace("http://www.w3.org", "").replace("http://testserver/", "")


def test_the_admin_works_under_the_policy() -> None:
    http = HttpClient()
    http.force_login(User.objects.create_superuser("operator"))
    for path in ("/admin/", "/admin/jobs/job/", "/admin/billing/account/add/"):
        text = http.get(path).content.decode()
        assert "<style" not in text
        assert not [part for part in text.split("<script")[1:] if " src=" not in part.split(">")[0]]


def test_cookies_are_limited_to_this_site() -> None:
    http = HttpClient()
    User.objects.create_user("jane", password="long enough, and rare")
    http.post("/accounts/login/", {"login": "jane", "password": "long enough, and rare"})
    http.get("/accounts/logout/")
    for name in ("csrftoken", "sessionid"):
        cookie = http.cookies[name]
        assert (cookie["samesite"], bool(cookie["httponly"]), bool(cookie["secure"])) == ("Lax", True, True)
