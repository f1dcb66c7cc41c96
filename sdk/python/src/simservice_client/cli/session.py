"""The client of a command: which service, and with which key."""

import json
from argparse import Namespace

from simservice_client import Client
from simservice_client._settings import configuration_file


def open_client(arguments: Namespace) -> Client:
    """Return the client that the arguments, the environment and `simctl login` describe. Raises NotConfigured."""
    return Client(arguments.url)


def stored_url() -> str | None:
    """Return the address that `simctl login` has stored, None without a readable one."""
    try:
        return str(json.loads(configuration_file().read_text(encoding="utf-8"))["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
