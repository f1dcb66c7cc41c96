"""Mail that pages ask a worker to write."""

import base64
import json
import re
from typing import Any

from dashboard import password_reset, sign_up
from simservice.redis.client import redis

WRITERS = {
    "dashboard.tasks.mail_sign_up_link": sign_up.mail_link,
    "dashboard.tasks.mail_reset_link": password_reset.mail_link,
}


def asked() -> list[tuple[str, dict[str, Any]]]:
    """Take what pages asked for out of the workers' queue: tasks and their arguments."""
    found = []
    while message := redis().rpop("control"):
        envelope = json.loads(str(message))
        _, arguments, _ = json.loads(base64.b64decode(envelope["body"]))
        found.append((envelope["headers"]["task"], arguments))
    return found


def write_mails() -> int:
    """Do what a worker does with what pages asked for; return how many mails that were."""
    return sum(WRITERS[task](**arguments) for task, arguments in asked())  # type: ignore[operator]


def link_in(message: Any, base: str = "http://testserver") -> str:
    """Return the path of the one link in a mail."""
    (path,) = re.findall(rf"{re.escape(base)}(/\S+)", str(message.body))
    return str(path)
