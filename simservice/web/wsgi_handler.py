"""Django's WSGI handler, made robust against unusual requests."""

import os
from typing import Any

from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.http.response import HttpResponseBase

from simservice.body_limit import MAX_BODY_BYTES


class Request(WSGIRequest):
    """A request whose query is UTF-8, whatever charset the request declares for its body.

    Django would decode the query with that charset too, and fail if it is unknown. The parsers check it instead.
    """

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        self.content_type = meta.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
        self.content_params = {}


class Handler(WSGIHandler):
    """Reads at most one byte more of a body than the limit."""

    request_class = Request

    def __call__(self, environ: dict[str, Any], start_response: Any) -> HttpResponseBase:
        # Django reads this many bytes, and the rate limit counts them.
        if "HTTP_TRANSFER_ENCODING" in environ:
            # The web server has received the chunked body completely.
            body = environ["wsgi.input"]
            environ["CONTENT_LENGTH"] = str(body.seek(0, os.SEEK_END))
            body.seek(0)
        elif int(environ.get("CONTENT_LENGTH") or 0) > MAX_BODY_BYTES:
            environ["CONTENT_LENGTH"] = str(MAX_BODY_BYTES + 1)
        return super().__call__(environ, start_response)
