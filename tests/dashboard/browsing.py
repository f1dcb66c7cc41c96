"""Browsers of people who are logged in, and what their pages say."""

import re
from typing import Any

from django.test import Client as HttpClient

from clients.models import Membership
from jobs.models import Job
from tests.factories import make_member


def browser_of(membership: Membership) -> HttpClient:
    """Return a browser in which a member is logged in."""
    http = HttpClient()
    http.force_login(membership.user)
    return http


def pages_of(job: Job) -> list[str]:
    """Return a job's page as its owner sees it, and its share page, as HTML."""
    own = browser_of(make_member(job.account)).get(f"/dashboard/{job.account}/jobs/{job.pk}")
    return [own.content.decode(), HttpClient().get(f"/share/{job.share_token}").content.decode()]


def text_of(answer: Any) -> str:
    """Return a page's words without its tags."""
    return " ".join(re.sub(r"<[^>]*>", " ", answer.content.decode()).split())


def hidden(answer: Any, name: str) -> str:
    """Return the value of a hidden field on a page."""
    (value,) = re.findall(rf'type="hidden" name="{name}" value="([^"]*)"', answer.content.decode())
    return str(value)
