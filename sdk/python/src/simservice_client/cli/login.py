"""`simctl login`: check and store an address and an API key."""

import contextlib
import getpass
import json
import os
import sys
import uuid
from argparse import Namespace
from pathlib import Path

from simservice_client import Client
from simservice_client._settings import URL_VARIABLE, configuration_file
from simservice_client.cli.console import Console
from simservice_client.cli.exits import CommandError, Exit
from simservice_client.cli.formats import whole
from simservice_client.cli.session import stored_url
from simservice_client.cli.text import printable


def login(arguments: Namespace, console: Console) -> int:
    """Ask for the address and the key unless they are given, check them, and store them."""
    url = arguments.url or _ask_url()
    key = _read_key() if arguments.key_stdin else _ask_key()
    with Client(url, key) as client:
        found = client.credits()
        path = store(url=url.rstrip("/"), key=key)
    if console.as_json:
        console.document({"url": url.rstrip("/"), "file": str(path)})
        return Exit.COMPLETED
    total = found.purchased + sum(each.remaining for each in found.grants)
    console.line(f"The key works: the account has {whole(total)} credits. Stored in {path}.")
    return Exit.COMPLETED


def store(*, url: str, key: str) -> Path:
    """Store the address and the key so that only this user can read them. Raises CommandError."""
    path = configuration_file()
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        _write_private(part, json.dumps({"url": url, "apiKey": key}))
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise CommandError(f"{path} cannot be written: {error.strerror}", Exit.LOCAL) from None
    return path


def _write_private(path: Path, text: str) -> None:
    """Write a new file that only this user can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _ask_url() -> str:
    """Return the address that a person enters; the one of the last login is the default."""
    default = os.environ.get(URL_VARIABLE) or stored_url()
    if not _has_terminal():
        raise CommandError("Without a terminal, use `simctl login --url URL --key-stdin`.", Exit.USAGE)
    sys.stderr.write(f"Address of the service [{printable(default)}]: " if default else "Address of the service: ")
    sys.stderr.flush()
    answer = sys.stdin.readline().strip() or default
    if not answer:
        raise CommandError("There is no address.", Exit.USAGE)
    return answer


def _ask_key() -> str:
    """Return the key that a person enters without echo."""
    if not _has_terminal():
        raise CommandError("Without a terminal, pass the key with --key-stdin.", Exit.USAGE)
    return _checked(getpass.getpass("API key (not shown): "))


def _read_key() -> str:
    """Return the first line of standard input."""
    return _checked(sys.stdin.readline())


def _checked(key: str) -> str:
    if not key.strip():
        raise CommandError("There is no key.", Exit.USAGE)
    return key.strip()


def _has_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()
