"""The client of a command: which service, and with which key."""

import json
import os
from argparse import Namespace

from simservice_client import Client
from simservice_client._settings import KEY_VARIABLE, URL_VARIABLE, configuration_file
from simservice_client.errors import NotConfigured


def open_client(arguments: Namespace) -> Client:
    """Return the client that the arguments, the environment and `simctl login` describe. Raises NotConfigured."""
    url = arguments.url or os.environ.get(URL_VARIABLE)
    if url and not os.environ.get(KEY_VARIABLE):
        _check_owner(url)
    return Client(url)


def stored_url() -> str | None:
    """Return the address that `simctl login` has stored, None without a readable one."""
    try:
        return str(json.loads(configuration_file().read_text(encoding="utf-8"))["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _check_owner(url: str) -> None:
    """Raise NotConfigured if the stored key would be sent to a service that it is not for."""
    owner = stored_url()
    if owner is not None and owner.rstrip("/") != url.rstrip("/"):
        raise NotConfigured(
            f"The stored API key is for {owner}. For {url}, set {KEY_VARIABLE}, or run `simctl login --url {url}`."
        )
