"""Public downloads, streamed and resumable: `GET /artifacts/{token}`, and the responses of other files."""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from django.utils.http import parse_etags

from clients.rate_limits import limited_by_address
from jobs.api.manifest import TOKEN
from jobs.artifacts import contents
from jobs.artifacts.contents import Content
from jobs.models import Artifact
from jobs.results import queries
from simservice.api import errors
from simservice.api.errors import (
    ApiError,
    FileMissing,
    NotFound,
    RangeNotSatisfiable,
    StorageUnavailable,
    error_response,
)
from simservice.api.methods import read_only
from simservice.api.operations import Header, Operation, ResponseSpec, Source, documented

logger = logging.getLogger(__name__)

RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})\Z", re.ASCII)
GZIP = re.compile(r"(?:^|,)\s*gzip\s*(?:;\s*q=(?P<weight>[0-9.]+)\s*)?(?:,|$)", re.IGNORECASE)
# HTML reports contain text from users: the sandbox prevents them from acting as a page of this site, and the rest
# from loading anything of other sites. Their scripts, styles and images are inline.
REPORT_POLICY = "; ".join(
    [
        "sandbox allow-scripts",
        "default-src 'none'",
        "script-src 'unsafe-inline'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        "font-src data:",
        "form-action 'none'",
        "base-uri 'none'",
    ]
)
SAFE_HEADERS = {
    "Content-Security-Policy": REPORT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, max-age=3600",
}
MEDIA_TYPES = ["text/csv", "text/html", "text/plain", "application/json"]
CONTENT_HEADERS = [
    Header(name="ETag", shape=str, description="Identifies the content."),
    Header(
        name="Content-Disposition",
        shape=str,
        description="Contains the `name` of the artifact. Browsers display HTML reports and download all other "
        "files.",
    ),
]


def content_responses(subject: str, *headers: Header) -> tuple[ResponseSpec, dict[int, ResponseSpec]]:
    """Return the responses of `respond` for the OpenAPI document: the whole content, and the others by status."""
    whole = ResponseSpec(
        description=f"The content of the {subject}.",
        shape=Any,
        example="name,dps_mean,dps_min,dps_max,dps_std_dev,dps_mean_std_dev\n",
        media_types=MEDIA_TYPES,
        headers=[*CONTENT_HEADERS, *headers],
    )
    content_range = Header(name="Content-Range", shape=str, description="The range, and the size of the content.")
    part = replace(
        whole,
        description="The requested range.",
        example="dps_mean,dps_min",
        headers=[*whole.headers, content_range],
    )
    return whole, {206: part, 304: ResponseSpec(description="The content has not changed.")}


ARTIFACT_CONTENT, ARTIFACT_PARTS = content_responses("artifact")
DOWNLOAD_ARTIFACT = Operation(
    id="downloadArtifact",
    tag="Public",
    summary="Download an artifact",
    description="Needs no API key. Supports `Range`, `If-Range` and `If-None-Match`, and gzip if the client "
    "accepts it. A content security policy isolates HTML reports from this site.",
    parameters=[replace(TOKEN, source=Source(operation="getArtifactUrl", pointer="/url", is_last_segment=True))],
    returns=ARTIFACT_CONTENT,
    also=ARTIFACT_PARTS,
    errors=[errors.NotFound, errors.RangeNotSatisfiable, errors.RateLimitExceeded, errors.QueueUnavailable],
)


@dataclass(frozen=True)
class ByteRange:
    """Bytes of the content, from `start` up to but not including `stop`."""

    start: int
    stop: int


@documented(DOWNLOAD_ARTIFACT)
@read_only
@limited_by_address
def artifact(request: HttpRequest, token: str) -> HttpResponseBase:
    """Respond with the content of an artifact (docs/reference/api.md#artifacts)."""
    return respond(request, lambda: _content_of(token))


def _content_of(token: str) -> Content:
    """Return the content of a download link. Raises NotFound."""
    artifact = queries.find_download(token)
    if artifact is None:
        raise NotFound
    return contents.of_artifact(artifact)


def respond(request: HttpRequest, find: Callable[[], Content]) -> HttpResponseBase:
    """Return the response with content: 200, 206, 304 or 416, or the ApiError that `find` raises."""
    try:
        content = find()
        with reading(content.artifact):
            response = _respond(request, content)
    except ApiError as error:
        response = error_response(error, request)
    return _with_safe_headers(response)


@contextmanager
def reading(artifact: Artifact | None) -> Iterator[None]:
    """Raise FileMissing or StorageUnavailable if the block cannot read an artifact's file."""
    number = artifact and artifact.pk
    try:
        yield
    except FileNotFoundError as error:
        logger.error("artifact %s: its file is missing; see `manage.py verifyartifacts`: %s", number, error)
        raise FileMissing from error
    except OSError as error:
        logger.warning("artifact %s: storage is unavailable", number, exc_info=True)
        raise StorageUnavailable from error


def _with_safe_headers(response: HttpResponseBase) -> HttpResponseBase:
    """Return a response with the headers that prevent a user's file from acting as a page of this site."""
    for name, value in SAFE_HEADERS.items():
        response[name] = value
    if response.status_code >= 400:
        response["Cache-Control"] = "no-store"
    patch_vary_headers(response, ["Accept-Encoding"])
    return response


def _respond(request: HttpRequest, content: Content) -> HttpResponseBase:
    """Return the response with existing content: 200, 206, 304 or 416.

    Raises FileNotFoundError if the storage no longer contains the file, another OSError if it is unavailable.
    """
    requested = _requested_range(request, content)
    gzip = GZIP.search(request.headers.get("Accept-Encoding", ""))
    compressed = requested is None and gzip is not None and (gzip["weight"] or "1").strip("0.") != ""
    tag = f'"{content.digest}-gzip"' if compressed else f'"{content.digest}"'
    cached = [each.removeprefix("W/") for each in parse_etags(request.headers.get("If-None-Match", ""))]
    response: HttpResponseBase
    if "*" in cached or tag in cached:
        response = HttpResponseNotModified()
    elif compressed:
        response = _stream(request, content, None)
        response["Content-Encoding"] = "gzip"
    elif requested is not None and requested.start >= requested.stop:
        response = error_response(RangeNotSatisfiable(size=content.size), request)
    else:
        response = _stream(request, content, requested or ByteRange(0, content.size))
        if requested is not None:
            response.status_code = 206
            response["Content-Range"] = f"bytes {requested.start}-{requested.stop - 1}/{content.size}"
    response["ETag"] = tag
    # Browsers display HTML reports and download all other files.
    disposition = "inline" if content.mime_type.startswith("text/html") else "attachment"
    response["Content-Disposition"] = f'{disposition}; filename="{content.name}"'
    return response


def _requested_range(request: HttpRequest, content: Content) -> ByteRange | None:
    """Return the requested range; None for the whole content, also if the header is invalid.

    A range past the end is empty. With `If-Range`, the range applies only if the content has not changed.
    """
    match = RANGE.match(request.headers.get("Range", ""))
    if match is None or request.headers.get("If-Range", f'"{content.digest}"') != f'"{content.digest}"':
        return None
    first, last = match.groups()
    if not first:
        return ByteRange(max(0, content.size - int(last)), content.size) if last else None
    if last and int(last) < int(first):
        return None
    return ByteRange(int(first), min(int(last) + 1 if last else content.size, content.size))


def _stream(request: HttpRequest, content: Content, part: ByteRange | None) -> HttpResponseBase:
    """Return a response that streams a range of the content, or all of it compressed if `part` is None."""
    opened = (
        contents.open_part(content, start=part.start, stop=part.stop) if part else contents.open_compressed(content)
    )
    if request.method == "HEAD":
        opened.close()
        response: HttpResponseBase = HttpResponse(content_type=content.mime_type)
    else:
        response = StreamingHttpResponse(opened.chunks(), content_type=content.mime_type)
    if opened.size is not None:
        response["Content-Length"] = str(opened.size)
    if part is not None:
        response["Accept-Ranges"] = "bytes"
    return response
