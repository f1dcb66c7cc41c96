"""Addresses of host names, resolved within a time limit."""

import socket
import threading
from concurrent.futures import Future

from simservice.network import addresses

# All addresses of a name are checked, but only this many are tried.
MAX_ADDRESSES = 4


class NotResolved(Exception):
    """The name has no addresses; the message is a sentence for the person who configured it."""


def resolve(target: addresses.Target, *, seconds: float) -> list[str]:
    """Return all addresses of a target's host. They are public, unless the target is allowed explicitly.

    Raises addresses.AddressRefused or NotResolved.
    """
    try:
        resolved = ask_resolver(target.host, target.port).result(timeout=seconds)
    except TimeoutError:
        raise NotResolved(f"The name {target.host} was not resolved within {seconds:g} seconds.") from None
    except (OSError, UnicodeError):
        resolved = []
    if not resolved:
        raise NotResolved(f"The name {target.host} does not resolve to any address.")
    if not target.is_allowed:
        addresses.require_public(resolved)
    return resolved


def ask_resolver(host: str, port: int) -> Future[list[str]]:
    """Return a future of a name's addresses, which can raise OSError or UnicodeError.

    The system's resolver cannot be interrupted, so it runs in a thread that is abandoned if it hangs.
    """
    future: Future[list[str]] = Future()

    def ask() -> None:
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        except (OSError, UnicodeError) as error:
            future.set_exception(error)
        else:
            future.set_result(list(dict.fromkeys(str(entry[4][0]) for entry in entries)))

    threading.Thread(target=ask, name="name-lookup", daemon=True).start()
    return future
