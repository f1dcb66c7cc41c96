"""The MCP endpoint: streamable HTTP without sessions, with one JSON response to each message."""

from typing import cast

from django.http import HttpResponse
from rest_framework.request import Request

from clients.authentication import Caller
from jobs.api.links import LinkBuilder
from jobs.mcp.call import Call
from simservice.api.addresses import base_url
from simservice.api.endpoint import Endpoint
from simservice.api.errors import OriginNotAllowed
from simservice.api.fields import single_values
from simservice.api.parsers import StrictJSONParser


class McpView(Endpoint):
    """`POST /mcp`, for keys of every scope: the tools decide what a key may do."""

    # There are no sessions to end and no server-sent messages.
    http_method_names = ["post"]
    parser_classes = [StrictJSONParser]
    schema = None

    def post(self, request: Request) -> HttpResponse:
        """Answer a request with 200, and accept a notification with 202."""
        single_values(request.query_params, known=())
        _require_own_origin(request)
        from jobs.mcp import server  # imported here, because it loads the package (30 MB)

        server.require_known_version(request.headers.get("MCP-Protocol-Version"))
        call = Call(request=request, caller=cast(Caller, request.user), links=LinkBuilder.for_request(request))
        answer = server.answer(request.data, call)
        if answer is None:
            return HttpResponse(status=202)
        return HttpResponse(answer, content_type="application/json")


def _require_own_origin(request: Request) -> None:
    """Raise OriginNotAllowed for a request from another site's page, as the protocol requires."""
    origin = request.headers.get("Origin")
    if origin is not None and origin.lower() != base_url(request).lower():
        raise OriginNotAllowed
