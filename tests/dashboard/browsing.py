"""Logged-in browsers and the text of pages."""

import re
from typing import Any

from django.db import connection
from django.test import Client as HttpClient
from django.test.utils import CaptureQueriesContext

from clients.models import Membership
from jobs.models import Job
from tests.factories import make_member


def browser_of(membership: Membership) -> HttpClient:
    """Return a browser with a member logged in."""
    http = HttpClient()
    http.force_login(membership.user)
    return http


def pages_of(job: Job) -> list[str]:
    """Return the HTML of a job's page and of its share page."""
    own = browser_of(make_member(job.account)).get(f"/dashboard/{job.account}/jobs/{job.pk}")
    return [own.content.decode(), HttpClient().get(f"/share/{job.share_token}").content.decode()]


def text_of(response: Any) -> str:
    """Return a page's text without tags."""
    return " ".join(re.sub(r"<[^>]*>", " ", response.content.decode()).split())


def hidden(response: Any, name: str) -> str:
    """Return the value of a hidden field."""
    (value,) = re.findall(rf'type="hidden" name="{name}" value="([^"]*)"', response.content.decode())
    return str(value)


def count_queries(http: HttpClient, path: str, **headers: str) -> int:
    """Return how many database queries a page needs, without savepoints."""
    with CaptureQueriesContext(connection) as queries:
        assert http.get(path, headers=headers).status_code == 200
    return len([query for query in queries if "SAVEPOINT" not in query["sql"]])
