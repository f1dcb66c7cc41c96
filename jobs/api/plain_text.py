"""Plain-text submissions: the profile is the body, all other fields are query parameters and headers."""

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

from django.http import QueryDict
from rest_framework.request import Request

from jobs import variants
from jobs.api.builds import EXAMPLE_BUILD_ID
from jobs.api.submission_request import (
    EXAMPLE_CAPS,
    SubmissionFields,
    normalized,
    reject_large_profile,
    set_at_path,
)
from jobs.errors import LimitsExceeded
from jobs.submission.request import Submission
from simservice.api.errors import ValidationFailed
from simservice.api.exception_handler import as_api_error
from simservice.api.fields import validated
from simservice.api.operations import Parameter
from simservice.api.parsers import is_plain_text
from simservice.api.query import single_values


def _as_boolean(text: str) -> bool | str:
    """Return a boolean, or the text itself, which the field then rejects."""
    return {"true": True, "false": False}.get(text, text)


def _as_integer(text: str) -> int | str:
    """Return an integer, also for `60.0` as in JSON, or the text itself, which the field then rejects.

    Accepts any number that fits into a URL: the account's limit rejects what is too large.
    """
    match = re.fullmatch(r"(-?[0-9]{1,4000})(\.0+)?", text)
    return int(match[1]) if match else text


def _as_list(text: str) -> list[str]:
    """Return the items of a comma-separated list."""
    return text.split(",")


# By query parameter: the path of the JSON field, how to convert the text, and an example.
PARAMETERS: dict[str, tuple[str, Any, Any]] = {
    "channel": ("build.channel", str, "latest"),
    "gitBranch": ("build.gitBranch", str, "midnight"),
    "buildId": ("build.id", str, EXAMPLE_BUILD_ID),
    "priority": ("priority", str, "standard"),
    "multiStage": ("runtime.multiStage", _as_boolean, False),
    "maxCredits": ("runtime.maxCredits", _as_integer, EXAMPLE_CAPS["maxCredits"]),
    "maxRuntimeSeconds": ("runtime.maxRuntimeSeconds", _as_integer, EXAMPLE_CAPS["maxRuntimeSeconds"]),
    "maxQueueSeconds": ("runtime.maxQueueSeconds", _as_integer, 600),
    "webhookEvents": ("webhook.events", _as_list, ["job.terminal"]),
    "artifactsHtml": ("artifacts.html", _as_boolean, True),
    "artifactsCsv": ("artifacts.csv", _as_boolean, True),
    "artifactsJsonVersion": ("artifacts.json.version", _as_integer, "2"),
}
HEADERS = {
    "X-Bnet-Client-Id": "credentials.bnetClientId",
    "X-Bnet-Client-Secret": "credentials.bnetClientSecret",
}
# The names of JSON fields in plain-text requests, for errors.
NAMES = (
    {path: name for name, (path, _, _) in PARAMETERS.items()}
    | {path: name for name, path in HEADERS.items()}
    | {"profile.text": "body"}
)


def query_parameters() -> list[Parameter]:
    """Return the documentation of the query parameters that the deployment's variant accepts."""
    fields = {name: _field_at(path) for name, (path, _, _) in PARAMETERS.items()}
    return [
        Parameter(
            name=name,
            location="query",
            shape=field,
            description=f"Plain text only. Same as `{PARAMETERS[name][0]}` in JSON.",
            example=PARAMETERS[name][2],
            style=_style_of(name),
        )
        for name, field in fields.items()
        if field is not None
    ]


def credential_headers() -> list[Parameter]:
    """Return the documentation of the headers that contain game credentials."""
    return [
        Parameter(
            name=name,
            location="header",
            shape=_field_at(path),
            description=f"Plain text only. Same as `{path}` in JSON.",
            example="0123456789abcdef0123456789abcdef",
        )
        for name, path in HEADERS.items()
    ]


def _field_at(path: str) -> Any:
    """Return the field at a dotted path of the JSON request, None if the variant does not have it."""
    field: Any = SubmissionFields()
    for name in path.split("."):
        field = field and field.fields.get(name)
    return field


def _style_of(name: str) -> dict[str, Any]:
    """Return further OpenAPI keywords of a query parameter."""
    if name == "webhookEvents":
        return {"style": "form", "explode": False}
    return {"deprecated": True} if name == variants.current().deprecated_cap_field else {}


def from_text(text: str, query: QueryDict, headers: Mapping[str, str]) -> Submission:
    """Return the submission in a plain-text request. Raises ProfileTooLarge or ValidationFailed."""
    body: dict[str, Any] = {"build": {}, "profile": {"text": text}}
    reject_large_profile(body)
    for name, value in single_values(query, known=PARAMETERS).items():
        path, convert, _ = PARAMETERS[name]
        set_at_path(body, path, convert(value))
    for name, path in HEADERS.items():
        if name in headers:
            set_at_path(body, path, headers[name])
    with _plain_text_names():
        fields = validated(SubmissionFields(data=body))
    return normalized(fields)


def named_as_sent(request: Request) -> AbstractContextManager[None]:
    """Return a context whose errors name fields as the request does, in JSON or in plain text."""
    return _plain_text_names() if is_plain_text(request.content_type) else nullcontext()


@contextmanager
def _plain_text_names() -> Iterator[None]:
    """Replace paths of the JSON request by names of query parameters and headers.

    Raises ValidationFailed instead of ValidationFailed or LimitsExceeded.
    """
    try:
        yield
    except (ValidationFailed, LimitsExceeded) as error:
        issues = cast(ValidationFailed, as_api_error(error)).issues
        raise ValidationFailed([issue | {"path": _plain_name(issue["path"])} for issue in issues]) from None


def _plain_name(path: str) -> str:
    """Return the plain-text name of a JSON field."""
    return NAMES.get(path.partition("[")[0], path)
