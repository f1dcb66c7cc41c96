"""Browsers of people who are logged in, and what their pages say."""

import re
from typing import Any

from django.test import Client as HttpClient

from clients.models import Membership


def browser_of(membership: Membership) -> HttpClient:
    """Return a browser in which a member is logged in."""
    http = HttpClient()
    http.force_login(membership.user)
    return http


def text_of(answer: Any) -> str:
    """Return a page's words without its tags."""
    return " ".join(re.sub(r"<[^>]*>", " ", answer.content.decode()).split())


def hidden(answer: Any, name: str) -> str:
    """Return the value of a hidden field on a page."""
    (value,) = re.findall(rf'type="hidden" name="{name}" value="([^"]*)"', answer.content.decode())
    return str(value)
