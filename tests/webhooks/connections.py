"""Record the connections that this process makes, with an audit hook of the interpreter."""

import ipaddress
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CONNECTS = {"socket.connect", "socket.sendto", "socket.sendmsg"}

observers: list[list[str]] = []


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Record each connection's address while there is an observer; refuse those that leave this machine."""
    if not observers or event not in CONNECTS or not isinstance(arguments[1], tuple):
        return
    address = str(arguments[1][0])
    observers[-1].append(address)
    if not ipaddress.ip_address(address).is_loopback:
        raise ConnectionRefusedError("tests do not leave this machine")


# An audit hook cannot be removed.
sys.addaudithook(watch)


@contextmanager
def connections() -> Iterator[list[str]]:
    """Collect the addresses of the connections that are made in the block."""
    addresses: list[str] = []
    observers.append(addresses)
    try:
        yield addresses
    finally:
        observers.pop()
