"""The public download of an artifact: streamed, resumable, and never able to act as a page of this site."""

import re

from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseNotModified,
    JsonResponse,
    StreamingHttpResponse,
)
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

from jobs import artifacts, queries
from jobs.api import responses
from jobs.links import Links
from jobs.models import Artifact
from simservice.api.errors import NotFound, error_response

RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})\Z")
SAFE_HEADERS = {
    "Content-Security-Policy": "sandbox allow-scripts",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Accept-Ranges": "bytes",
    "Cache-Control": "private, max-age=3600",
}


@require_safe
def artifact(request: HttpRequest, token: str) -> HttpResponseBase:
    """Answer with an artifact's content; whoever has the address may read it (contract, sections 2 and 6)."""
    found = Artifact.objects.filter(token=token).first()
    if found is None:
        return error_response(NotFound(), request)
    response = respond(request, found)
    for name, value in SAFE_HEADERS.items():
        response[name] = value
    response["ETag"] = etag(found)
    patch_vary_headers(response, ["Accept-Encoding"])
    return response


@require_safe
def manifest(request: HttpRequest, token: str) -> JsonResponse:
    """Answer with an ended job's manifest, the latest attempt's (contract, section 4)."""
    job = queries.find_shared(token)
    if job is None or not job.is_terminal:
        return error_response(NotFound(), request)
    return JsonResponse(responses.manifest(job, queries.artifacts_of(job), Links.for_request(request)))


def etag(found: Artifact) -> str:
    """Return the content's own hash as its entity tag."""
    return f'"{found.sha256}"'


def respond(request: HttpRequest, found: Artifact) -> HttpResponseBase:
    """Choose between nothing new, a part, the compressed file as it is, and the content."""
    if etag(found) in request.headers.get("If-None-Match", ""):
        return HttpResponseNotModified()
    if "Range" in request.headers:
        return respond_part(request.headers["Range"], found)
    compressed = "gzip" in request.headers.get("Accept-Encoding", "")
    response = stream(found, compressed=compressed)
    if compressed:
        response["Content-Encoding"] = "gzip"
    else:
        response["Content-Length"] = str(found.bytes)
    return response


def respond_part(header: str, found: Artifact) -> HttpResponseBase:
    """Answer a request for one range of bytes; several ranges, or nonsense, get the whole content."""
    asked = RANGE.match(header)
    if asked is None or asked.groups() == ("", ""):
        response = stream(found, compressed=False)
        response["Content-Length"] = str(found.bytes)
        return response
    start, stop = bounds(*asked.groups(), size=found.bytes)
    if start >= stop:
        return HttpResponse(status=416, headers={"Content-Range": f"bytes */{found.bytes}"})
    response = stream(found, compressed=False, start=start, stop=stop)
    response.status_code = 206
    response["Content-Range"] = f"bytes {start}-{stop - 1}/{found.bytes}"
    response["Content-Length"] = str(stop - start)
    return response


def bounds(first: str, last: str, *, size: int) -> tuple[int, int]:
    """Return the half-open range of bytes that a range header's two numbers mean."""
    if not first:
        return max(0, size - int(last)), size
    return int(first), min(int(last) + 1 if last else size, size)


def stream(found: Artifact, *, compressed: bool, start: int = 0, stop: int | None = None) -> StreamingHttpResponse:
    """Return a response that reads the artifact as it is sent."""
    parts = artifacts.chunks(found, compressed=compressed, start=start, stop=stop)
    return StreamingHttpResponse(parts, content_type=found.mime_type)
