"""How large a request may be: for the parsers, and for the web server, which reads it before Django is set up."""

from collections.abc import Mapping
from typing import Any

MAX_BODY_BYTES = 3 * 1024 * 1024


def is_chunked(environ: Mapping[str, Any]) -> bool:
    """Return whether a body comes without its length; the server has refused every other transfer coding."""
    return "HTTP_TRANSFER_ENCODING" in environ
