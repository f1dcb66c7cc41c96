"""Conditional requests: a client that polls sends the `ETag` of its last response in `If-None-Match`.

The tag is a hash of the body, so it changes with anything that the client can see.
"""

from hashlib import blake2b

from django.http import HttpResponse
from django.utils.http import parse_etags
from rest_framework.request import Request

from simservice.api.operations import Header, Parameter, ResponseSpec

TAG_BYTES = 16
IF_NONE_MATCH = Parameter(
    name="if-none-match",
    location="header",
    shape=str,
    description="`ETag` of an earlier response. If the body has not changed, the response is 304 and has no body.",
    example='"5eb63bbbe01eeed093cb22bb8f5acdc3"',
)
ETAG = Header(name="ETag", shape=str, description="Identifies the content of the body.")
NOT_MODIFIED = ResponseSpec(description="The body has not changed.", headers=[ETAG])


def revalidate(request: Request, response: HttpResponse) -> None:
    """Add the `ETag` of a rendered response, and empty the response if the client already has its body."""
    response["ETag"] = tag = f'"{blake2b(response.content, digest_size=TAG_BYTES).hexdigest()}"'
    known = parse_etags(request.headers.get("If-None-Match", ""))
    if "*" in known or tag in known or f"W/{tag}" in known:
        response.status_code = 304
        response.content = b""
        del response["Content-Type"]
