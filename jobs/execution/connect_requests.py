"""CONNECT requests to the game API proxy: parsing, and the responses to rejected ones."""

import re
from http import HTTPStatus

REQUEST_LINE = re.compile(r"(?P<method>[!-~]+) (?P<target>[!-~]+) HTTP/1\.[01]")
HEADER_LINE = re.compile(r"(?P<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t -~\x80-\xff]*")
AUTHORITY = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")
# A CONNECT request has no body (RFC 9110, 9.3.6); these headers would announce one.
BODY_HEADERS = {"content-length", "transfer-encoding"}


class Rejected(Exception):
    """The proxy rejects a request; the message is the response's body."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


def parse_target(head: bytes) -> str:
    """Return the target of a CONNECT request. Raises Rejected."""
    request_line, *header_lines = head.decode("latin-1").split("\r\n")
    request = REQUEST_LINE.fullmatch(request_line)
    headers = [HEADER_LINE.fullmatch(line) for line in header_lines]
    if request is None or None in headers:
        raise Rejected(HTTPStatus.BAD_REQUEST, "The request is malformed.")
    if request["method"] != "CONNECT":
        raise Rejected(HTTPStatus.METHOD_NOT_ALLOWED, "Only CONNECT is supported.")
    if any(header and header["name"].lower() in BODY_HEADERS for header in headers):
        raise Rejected(HTTPStatus.BAD_REQUEST, "A CONNECT request must not have a body.")
    return request["target"]


def response(rejected: Rejected) -> bytes:
    """Return the HTTP response to a rejected request."""
    body = f"{rejected}\n".encode("ascii")
    lines = [
        f"HTTP/1.1 {rejected.status.value} {rejected.status.phrase}",
        "Content-Type: text/plain",
        f"Content-Length: {len(body)}",
        *(["Allow: CONNECT"] if rejected.status == HTTPStatus.METHOD_NOT_ALLOWED else []),
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body


def parse_authority(target: str) -> tuple[str, str]:
    """Return the host and port of a CONNECT target. Raises Rejected."""
    authority = AUTHORITY.fullmatch(target)
    if authority is None:
        raise Rejected(HTTPStatus.BAD_REQUEST, "The target is not of the form host:port.")
    return authority["host"], authority["port"]
