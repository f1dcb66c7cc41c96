"""The address of a job's picture, for anyone with its link (docs/reference/api.md#picture)."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils import timezone
from django.utils.http import parse_etags

from clients.rate_limits import limited_by_address
from dashboard.public.card.content import card_of
from jobs.artifacts import retention
from jobs.models import Job
from jobs.results import details, queries
from simservice.api.methods import read_only
from simservice.postgresql.connections import snapshot

# Part of each entity tag. Increase it when the drawing changes.
DESIGN = 2
MAX_AGE_SECONDS = 24 * 3600
# A picture takes a tenth of a second.
WAIT_SECONDS = 1.0
HEADERS = {"X-Robots-Tag": "noindex", "X-Content-Type-Options": "nosniff"}
BUSY = "Too many pictures were requested at the same time. Try again in a few seconds.\n"
_drawing = threading.Lock()


class TooManyPictures(Exception):
    """Other pictures are being drawn."""


@read_only
@limited_by_address
def card(request: HttpRequest, token: str) -> HttpResponse:
    """Respond with the picture of a job. Raises Http404 for an unknown link or after the retention period."""
    with snapshot():
        job = queries.find_shared(token)
        known = details.details_of(job, shown=[0]) if job and job.has_result else None
    if job is None:
        raise Http404
    content = card_of(job, known)
    # The tag depends on everything that the picture shows.
    tag = f'"{hashlib.sha256(repr((DESIGN, content)).encode()).hexdigest()[:32]}"'
    if tag in parse_etags(request.headers.get("If-None-Match", "").replace("W/", "")):
        response: HttpResponse = HttpResponseNotModified()
    else:
        try:
            with _one_at_a_time():
                # Imported late because it needs 5 MB, which a process without pictures can save.
                from dashboard.public.card.drawing import draw

                response = HttpResponse(draw(content), content_type="image/png")
        except TooManyPictures:
            return HttpResponse(BUSY, status=503, content_type="text/plain", headers={"Retry-After": "2"})
    for name, value in {**HEADERS, "ETag": tag, "Cache-Control": _caching(job)}.items():
        response[name] = value
    return response


def _caching(job: Job) -> str:
    """Return how long a picture may be cached: not before the job has ended, nor after its retention period."""
    if not job.is_terminal:
        return "no-store"
    left = int((retention.kept_until(job) - timezone.now()).total_seconds())
    return f"public, max-age={max(0, min(left, MAX_AGE_SECONDS))}"


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Let one thread of the process draw, which bounds the memory. Raises TooManyPictures after WAIT_SECONDS."""
    if not _drawing.acquire(timeout=WAIT_SECONDS):
        raise TooManyPictures
    try:
        yield
    finally:
        _drawing.release()
