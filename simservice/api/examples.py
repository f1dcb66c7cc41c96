"""An example of every error with its `meta` (docs/reference/errors.md#codes)."""

from collections.abc import Iterator
from typing import Any

from simservice.api import errors
from simservice.api.errors import ApiError

REQUEST_ID = "req_5f0c1d2e3a4b5968778695a4b3c2d1e0"
HOST = "https://sim.example.com"


def docs_url(code: str) -> str:
    """Return the URL of the documentation of an error code."""
    return f"{HOST}/docs/errors#{code}"


def family(member: type[ApiError] = ApiError) -> Iterator[type[ApiError]]:
    """Yield every error class that has a code, in order of definition."""
    for child in member.__subclasses__():
        if child.__dict__.get("code"):
            yield child
        yield from family(child)


def example_of(error: type[ApiError]) -> ApiError:
    """Return the example of an error, with the message that `meta` repeats, if it does."""
    given = error.example
    if given is None:
        return error()
    return error(given, message=given["message"]) if "message" in given else error(given)


def envelope_of(error: type[ApiError]) -> dict[str, Any]:
    """Return the envelope of the example."""
    return errors.envelope(example_of(error), REQUEST_ID)
