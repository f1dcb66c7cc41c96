"""Mail that pages enqueue for a worker."""

import base64
import json
import re
from typing import Any

from dashboard.login import password_reset, sign_up
from simservice.redis.client import redis

SENDERS = {
    "dashboard.tasks.mail_sign_up_link": sign_up.mail_link,
    "dashboard.tasks.mail_reset_link": password_reset.mail_link,
}


def take_tasks() -> list[tuple[str, dict[str, Any]]]:
    """Remove the enqueued tasks from the workers' queue; return their names and arguments."""
    tasks = []
    while message := redis().rpop("control"):
        envelope = json.loads(str(message))
        _, arguments, _ = json.loads(base64.b64decode(envelope["body"]))
        tasks.append((envelope["headers"]["task"], arguments))
    return tasks


def write_mails() -> int:
    """Send the enqueued mail as a worker does; return how many mails were sent."""
    return sum(SENDERS[task](**arguments) for task, arguments in take_tasks())  # type: ignore[operator]


def link_in(message: Any, base: str = "http://testserver") -> str:
    """Return the path of the only link in a mail."""
    (path,) = re.findall(rf"{re.escape(base)}(/\S+)", str(message.body))
    return str(path)
