"""Actions in the admin, as operators run them: select, read the preview, confirm."""

import re
from collections.abc import Iterable
from html import unescape
from typing import Any

from django.contrib.messages import get_messages
from django.test import Client as Browser

HIDDEN = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')


def choose(browser: Browser, page: str, action: str, ids: Iterable[object], **fields: Any) -> Any:
    """Choose an action for objects of a list, and return the response."""
    return browser.post(page, {"action": action, "_selected_action": [str(each) for each in ids], **fields})


def confirm(browser: Browser, page: str, preview: Any) -> Any:
    """Confirm a preview as it was shown, and return the response."""
    sent: dict[str, list[str]] = {}
    for name, value in HIDDEN.findall(preview.content.decode()):
        sent.setdefault(name, []).append(unescape(value))
    return browser.post(page, sent)


def act(browser: Browser, page: str, action: str, ids: Iterable[object], **fields: Any) -> list[str]:
    """Choose an action, confirm it if there is a preview, and return the messages."""
    response = choose(browser, page, action, ids, **fields)
    if response.status_code == 200:
        response = confirm(browser, page, response)
    return [str(message) for message in get_messages(response.wsgi_request)]


def opened_of(browser: Browser, page: str) -> str:
    """Open the form of an object, and return the field that says when it was opened."""
    return str(browser.get(page).context["adminform"].form["opened"].value())
