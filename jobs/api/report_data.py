"""Files under a share link for programs: `GET /share/{token}/{file}`, readable by scripts on any site."""

from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import register_converter
from django.urls.converters import StringConverter
from django.views.decorators.csrf import csrf_exempt

from clients.rate_limits import limited_by_address
from jobs.api import downloads
from jobs.api.downloads import content_responses
from jobs.api.errors import ReportFileMissing
from jobs.api.manifest import TOKEN
from jobs.artifacts.contents import Content
from jobs.results import report_data
from jobs.results.report_data import BrokenReport, DataFile
from simservice.api import errors
from simservice.api.methods import View, read_only
from simservice.api.operations import Header, Operation, Parameter, documented

CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "Accept-Ranges, Content-Disposition, Content-Length, Content-Range, ETag, "
    "Retry-After",
}
PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, HEAD",
    "Access-Control-Allow-Headers": "If-None-Match, If-Range, Range",
    "Access-Control-Max-Age": "86400",
}
# The title and what the link shows can change, so caches must ask each time.
HEADERS = {"Cache-Control": "private, no-cache", "X-Robots-Tag": "noindex"}
ORIGIN = Header(
    name="Access-Control-Allow-Origin", shape=str, description="`*`: scripts on any site can read the file."
)
FILE_CONTENT, FILE_PARTS = content_responses("file", ORIGIN)
GET_REPORT_DATA = Operation(
    id="getReportData",
    tag="Public",
    summary="Get report data under a share link",
    description="Needs no API key. `data.json` is the JSON report with the block `simbot`, and `data.full.json` is "
    "the same file. Supports `Range`, `If-Range` and `If-None-Match`, and gzip if the client accepts it.",
    parameters=[
        TOKEN,
        Parameter(
            name="file", location="path", shape=DataFile, description="The file.", example=DataFile.DATA_JSON.value
        ),
    ],
    returns=FILE_CONTENT,
    also=FILE_PARTS,
    errors=[errors.NotFound, errors.RangeNotSatisfiable, errors.RateLimitExceeded, errors.QueueUnavailable],
)


class DataFileConverter(StringConverter):
    """The name of a file under a share link. A path with another name does not match."""

    regex = "|".join(each.value.replace(".", r"\.") for each in DataFile)


register_converter(DataFileConverter, "datafile")


def for_every_origin(view: View) -> View:
    """Return a view whose responses, including errors, can be read by scripts on any site."""

    @csrf_exempt
    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        is_preflight = request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers
        response = HttpResponse(status=204, headers=PREFLIGHT) if is_preflight else view(request, *args, **kwargs)
        for name, value in CORS.items():
            response[name] = value
        return response

    return wrapped


@documented(GET_REPORT_DATA)
@for_every_origin
@read_only
@limited_by_address
def report_file(request: HttpRequest, token: str, file: str) -> HttpResponseBase:
    """Respond with a file under a share link (docs/reference/api.md#report-data)."""
    response = downloads.respond(request, lambda: _content_of(token, DataFile(file)))
    if response.status_code < 400:
        for name, value in HEADERS.items():
            response[name] = value
    return response


def _content_of(token: str, file: DataFile) -> Content:
    """Return the content of a file. Raises ReportFileMissing, FileMissing or StorageUnavailable."""
    found = report_data.find(token, file)
    if found is None:
        raise ReportFileMissing
    artifact, content_of = found
    try:
        with downloads.reading(artifact):
            return content_of()
    except BrokenReport:
        raise ReportFileMissing from None
