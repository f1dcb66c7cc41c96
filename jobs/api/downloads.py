"""The public download of an artifact: streamed, resumable, and never able to act as a page of this site."""

import logging
import re
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from django.utils.http import parse_etags

from clients.rate_limits import limited_by_address
from jobs import artifacts, queries
from jobs.api import operations, responses
from jobs.api.links import Links
from jobs.models import Artifact
from simservice.api.errors import NotFound, StorageUnavailable, error_response
from simservice.api.methods import read_only
from simservice.api.operations import documented

logger = logging.getLogger(__name__)

RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})\Z", re.ASCII)
GZIP = re.compile(r"(?:^|,)\s*gzip\s*(?:;\s*q=(?P<weight>[0-9.]+)\s*)?(?:,|$)", re.IGNORECASE)
SAFE_HEADERS = {
    "Content-Security-Policy": "sandbox allow-scripts",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, max-age=3600",
}


@dataclass(frozen=True)
class Part:
    """Bytes of an artifact, from `start` up to `stop`."""

    start: int
    stop: int


@documented(operations.DOWNLOAD_ARTIFACT)
@read_only
@limited_by_address
def artifact(request: HttpRequest, token: str) -> HttpResponseBase:
    """Answer with an artifact's content; whoever has the address may read it (contract, sections 2 and 6)."""
    found = queries.find_download(token)
    try:
        response = error_response(NotFound(), request) if found is None else respond(request, found)
    except FileNotFoundError:
        response = error_response(NotFound(), request)
    except OSError:
        logger.warning("artifact %s: the storage does not answer", found and found.pk, exc_info=True)
        response = error_response(StorageUnavailable(), request)
    for name, value in SAFE_HEADERS.items():
        response[name] = value
    if response.status_code >= 400:
        response["Cache-Control"] = "no-store"
    patch_vary_headers(response, ["Accept-Encoding"])
    return response


@documented(operations.GET_MANIFEST)
@read_only
@limited_by_address
def manifest(request: HttpRequest, token: str) -> JsonResponse:
    """Answer with an ended job's manifest, the latest attempt's (contract, section 4)."""
    job = queries.find_shared(token)
    if job is None or not job.is_terminal:
        return error_response(NotFound(), request)
    return JsonResponse(responses.manifest(job, queries.artifacts_of(job), Links.for_request(request)))


def respond(request: HttpRequest, found: Artifact) -> HttpResponseBase:
    """Choose between nothing new, a part, the compressed file as it is, and the content.

    Raises FileNotFoundError when the storage has the artifact no more, another OSError when it does not answer.
    """
    part = asked_part(request, found)
    compressed = part is None and accepts_gzip(request)
    tag = f'"{found.sha256}-gzip"' if compressed else f'"{found.sha256}"'
    response: HttpResponseBase
    if is_known(request, tag):
        response = HttpResponseNotModified()
    elif compressed:
        response = send(request, found, None)
        response["Content-Encoding"] = "gzip"
    elif part is not None and part.start >= part.stop:
        response = HttpResponse(status=416, headers={"Content-Range": f"bytes */{found.bytes}"})
    else:
        response = send(request, found, part or Part(0, found.bytes))
        if part is not None:
            response.status_code = 206
            response["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{found.bytes}"
    response["ETag"] = tag
    response["Content-Disposition"] = disposition(found)
    return response


def disposition(found: Artifact) -> str:
    """Return the Content-Disposition of an artifact: browsers display the HTML report and download the rest."""
    shown = found.kind == Artifact.Kind.HTML_REPORT
    name = artifacts.file_name(Artifact.Kind(found.kind), stage=found.stage)
    return f'{"inline" if shown else "attachment"}; filename="{name}"'


def is_known(request: HttpRequest, tag: str) -> bool:
    """Tell whether the caller has this very representation already."""
    known = parse_etags(request.headers.get("If-None-Match", ""))
    return "*" in known or tag in [one.removeprefix("W/") for one in known]


def accepts_gzip(request: HttpRequest) -> bool:
    """Tell whether the caller takes a compressed answer."""
    found = GZIP.search(request.headers.get("Accept-Encoding", ""))
    return found is not None and (found["weight"] or "1").strip("0.") != ""


def asked_part(request: HttpRequest, found: Artifact) -> Part | None:
    """Return the one range of bytes that is asked for; None for the whole, also when the range makes no sense.

    A part past the end is empty. With `If-Range`, the part is meant only of the content that the caller knows.
    """
    asked = RANGE.match(request.headers.get("Range", ""))
    if asked is None or request.headers.get("If-Range", f'"{found.sha256}"') != f'"{found.sha256}"':
        return None
    first, last = asked.groups()
    if not first:
        return Part(max(0, found.bytes - int(last)), found.bytes) if last else None
    if last and int(last) < int(first):
        return None
    return Part(int(first), min(int(last) + 1 if last else found.bytes, found.bytes))


def send(request: HttpRequest, found: Artifact, part: Part | None) -> HttpResponseBase:
    """Return a response that reads a part of the artifact, or its compressed file, as it is sent."""
    opened = (
        artifacts.open_part(found, start=part.start, stop=part.stop) if part else artifacts.open_compressed(found)
    )
    if request.method == "HEAD":
        opened.close()
        response: HttpResponseBase = HttpResponse(content_type=found.mime_type)
    else:
        response = StreamingHttpResponse(opened.chunks(), content_type=found.mime_type)
    response["Content-Length"] = str(opened.size)
    if part is not None:
        response["Accept-Ranges"] = "bytes"
    return response
