"""One request to a receiver: resolved once, connected to an address that was judged, over before its deadline.

No proxy of the environment is asked and no redirect followed, because nothing here knows of either.
"""

import io
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException, HTTPResponse
from typing import Any

from django.conf import settings

from webhooks import addresses
from webhooks.models import Delivery

# For everything together: name, connection, TLS, headers and body (specification, Limits).
TIMEOUT_SECONDS = 10.0
MOST_BODY_BYTES = 64 * 1024
# Of a whole answer: headers, and answers that only announce another one, have a bound too.
MOST_BYTES = 2 * MOST_BODY_BYTES
FINAL_STATUS = 200
# All addresses of a name are judged, but a name must not send us to hundreds of machines.
MOST_ADDRESSES = 4

Problem = Delivery.Problem


@dataclass(kw_only=True)
class Answer:
    """What came of a request: the receiver's status, or the problem that kept a complete answer from being had."""

    duration_ms: int = 0
    address: str = ""
    status: int | None = None
    retry_after: str = ""
    body: bytes = b""
    problem: str = ""
    detail: str = ""


class Failed(Exception):
    """No answer could be had."""

    def __init__(self, problem: Problem, detail: str) -> None:
        super().__init__(detail)
        self.problem = problem


class Deadline:
    """The moment at which a request must be over, whatever it waits for."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.at = time.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds that are left. Raises TimeoutError when there are none."""
        left = self.at - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def send(url: str, headers: Mapping[str, str], body: bytes) -> Answer:
    """Post a body to a URL and return what came of it. Raises nothing that a receiver could cause."""
    started = time.monotonic()
    answer, deadline = Answer(), Deadline(TIMEOUT_SECONDS)
    try:
        exchange(url, headers, body, deadline=deadline, answer=answer)
    except Failed as failed:
        answer.problem, answer.detail = failed.problem, str(failed)
    except TimeoutError:
        answer.problem = Problem.TIMEOUT
        answer.detail = f"There was no complete answer within {deadline.seconds:g} seconds."
    answer.duration_ms = round((time.monotonic() - started) * 1000)
    return answer


def exchange(url: str, headers: Mapping[str, str], body: bytes, *, deadline: Deadline, answer: Answer) -> None:
    """Make the request and note in `answer` what is known so far. Raises Failed or TimeoutError."""
    try:
        target = addresses.parse(url)
        found = resolve(target, deadline=deadline)
    except addresses.Refused as refused:
        raise Failed(Problem.ADDRESS, str(refused)) from None
    connection, answer.address = connect(found[:MOST_ADDRESSES], target.port, deadline=deadline)
    with connection:
        try:
            with secure(connection, target.host, deadline=deadline) as secured:
                secured.settimeout(deadline.left())
                secured.sendall(request(target, headers, body))
                read(secured, deadline=deadline, answer=answer)
        except TimeoutError:
            raise
        except ssl.SSLError as error:
            raise Failed(Problem.TLS, f"TLS failed: {reason_of(error)}.") from None
        except OSError as error:
            raise Failed(Problem.CONNECTION, f"The connection broke: {reason_of(error)}.") from None
        except HTTPException as error:
            raise Failed(Problem.PROTOCOL, f"The answer is not HTTP: {type(error).__name__}.") from None


def resolve(target: addresses.Target, *, deadline: Deadline) -> list[str]:
    """Return the addresses of a target's name, all of them public or the target allowed.

    Raises addresses.Refused, or Failed when the name leads nowhere or is not answered in time.
    """
    found = look_up(target.host, target.port, deadline=deadline)
    if not target.is_allowed:
        addresses.require_public(found)
    return found


def look_up(host: str, port: int, *, deadline: Deadline) -> list[str]:
    """Return all addresses of a name. Raises Failed, or TimeoutError when no time is left."""
    seconds = deadline.left()
    try:
        found = ask_resolver(host, port).result(timeout=seconds)
    except TimeoutError:
        raise Failed(
            Problem.DNS, f"The name {host} was not resolved within {deadline.seconds:g} seconds."
        ) from None
    except (OSError, UnicodeError):
        found = []
    if not found:
        raise Failed(Problem.DNS, f"The name {host} does not lead to any address.")
    return found


def ask_resolver(host: str, port: int) -> Future[list[str]]:
    """Return a future of the addresses of a name, which can raise OSError or UnicodeError.

    The system's resolver cannot be interrupted, so it has its own thread, which is abandoned if it hangs.
    """
    answer: Future[list[str]] = Future()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        except (OSError, UnicodeError) as error:
            answer.set_exception(error)
        else:
            answer.set_result(list(dict.fromkeys(str(entry[4][0]) for entry in found)))

    threading.Thread(target=ask, name="name-lookup", daemon=True).start()
    return answer


def connect(found: Sequence[str], port: int, *, deadline: Deadline) -> tuple[socket.socket, str]:
    """Connect to the first address that takes it, and return which; each has its part of the time.

    Raises Failed or TimeoutError.
    """
    last = OSError()
    for number, address in enumerate(found):
        connection = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        try:
            connection.settimeout(deadline.left() / (len(found) - number))
            connection.connect((address, port))
        except OSError as error:
            connection.close()
            last = error
        else:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection, address
    if isinstance(last, TimeoutError):
        raise last
    raise Failed(Problem.CONNECTION, f"No connection: {reason_of(last)}.")


def secure(connection: socket.socket, host: str, *, deadline: Deadline) -> ssl.SSLSocket:
    """Begin TLS with a receiver that must prove to be the URL's host. Raises OSError, ssl.SSLError included."""
    connection.settimeout(deadline.left())
    return tls(settings.WEBHOOK_CA_FILE).wrap_socket(connection, server_hostname=host)


@cache
def tls(ca_file: str) -> ssl.SSLContext:
    """Return what receivers are verified by: the system's authorities, and those of a file if one is named."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file:
        context.load_verify_locations(ca_file)
    return context


def request(target: addresses.Target, headers: Mapping[str, str], body: bytes) -> bytes:
    """Return the request as it goes over the wire."""
    named = {
        "Host": target.authority,
        **headers,
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        "Connection": "close",
        "Content-Length": str(len(body)),
    }
    lines = [f"POST {target.path} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items()), "", ""]
    return "\r\n".join(lines).encode("ascii") + body


def read(connection: ssl.SSLSocket, *, deadline: Deadline, answer: Answer) -> None:
    """Read the answer's status and the beginning of its body. Raises OSError, HTTPException or Failed.

    A body that breaks off does not change what the receiver answered; one that never ends takes too long.
    """
    response = HTTPResponse(Source(connection, deadline), method="POST")  # type: ignore[arg-type]
    response.begin()
    if response.status < FINAL_STATUS:
        raise Failed(Problem.PROTOCOL, f"The answer's status is {response.status}, which announces another one.")
    answer.status = response.status
    answer.retry_after = response.getheader("Retry-After", "")
    try:
        answer.body = response.read(MOST_BODY_BYTES)
    except TimeoutError:
        raise
    except (HTTPException, OSError, Failed):
        return


class Source(io.RawIOBase):
    """The bytes of a connection, each read of which has only the time that is left for everything."""

    def __init__(self, connection: ssl.SSLSocket, deadline: Deadline) -> None:
        self.connection, self.deadline = connection, deadline
        self.taken = 0

    def makefile(self, _: str) -> io.BufferedReader:
        """Return the same with a buffer, which is what http.client asks of a socket."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what there is. Raises TimeoutError, OSError, or Failed for an answer without end."""
        if self.taken > MOST_BYTES:
            raise Failed(Problem.PROTOCOL, f"The answer's headers are longer than {MOST_BYTES} bytes.")
        self.connection.settimeout(self.deadline.left())
        count = self.connection.recv_into(buffer)
        self.taken += count
        return count


def reason_of(error: OSError) -> str:
    """Return an error in a few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return str(error.verify_message)
    return str(error.strerror or error.__class__.__name__).rstrip(".")
