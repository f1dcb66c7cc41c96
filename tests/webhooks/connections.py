"""What this process connects to, seen by the interpreter's own audit hook, whatever code asks for it."""

import ipaddress
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CONNECTS = {"socket.connect", "socket.sendto", "socket.sendmsg"}

observers: list[list[str]] = []


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Note each connection's address while anybody observes; what leaves this machine does not get out."""
    if not observers or event not in CONNECTS or not isinstance(arguments[1], tuple):
        return
    address = str(arguments[1][0])
    observers[-1].append(address)
    if not ipaddress.ip_address(address).is_loopback:
        raise ConnectionRefusedError("tests stay on this machine")


# A hook cannot be taken away again.
sys.addaudithook(watch)


@contextmanager
def connections() -> Iterator[list[str]]:
    """Collect the addresses that are connected to within the block."""
    seen: list[str] = []
    observers.append(seen)
    try:
        yield seen
    finally:
        observers.pop()
