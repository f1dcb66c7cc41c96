"""Newcomers: visitors who sign up."""

import re

from tests.browser.chromium import Visitor
from tests.stack import Stack
from tests.waiting import wait_until


def sign_up(visitor: Visitor, stack: Stack, *, email: str) -> None:
    """Sign up from the home page, with the link that the local stack writes to its log."""
    visitor.open("/")
    visitor.follow("Sign up")
    visitor.fill(email=email)
    visitor.press("Send link")
    assert visitor.heading() == "Check your email"
    visitor.open(mailed_link(stack, email))
    visitor.fill(password1="a long way to go")
    visitor.press("Sign up")
    assert visitor.heading() == "Overview"


def mailed_link(stack: Stack, email: str) -> str:
    """Return the path of the newest link that was mailed to an address."""
    log = stack.data / "logs" / "control.log"
    link = re.compile(rf"To: {re.escape(email)}.*?(/accounts/\S+/)", re.DOTALL)
    wait_until(lambda: bool(link.search(log.read_text())))
    return str(link.findall(log.read_text())[-1])
