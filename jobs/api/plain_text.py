"""Plain-text submissions: the profile is the body, all other fields are query parameters and headers."""

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

from django.http import QueryDict
from rest_framework.request import Request

from jobs import api_mode
from jobs.api.builds import EXAMPLE_BUILD_ID
from jobs.api.submission_request import (
    EXAMPLE_CAPS,
    HALF_PAIR,
    SubmissionFields,
    normalized,
    reject_large_profile,
    set_at_path,
)
from jobs.errors import CapTooSmall, LimitsExceeded
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


def _as_number(text: str) -> float | str:
    """Return a number, an integer also for `60.0` as in JSON, or the text itself, which the field then rejects.

    Accepts any number that fits into a URL: the account's limit rejects what is too large.
    """
    match = re.fullmatch(r"(-?[0-9]{1,4000})(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?", text)
    if match is None:
        return text
    return float(text) if match[3] or (match[2] or "").strip(".0") else int(match[1])


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
    "maxCredits": ("runtime.maxCredits", _as_number, EXAMPLE_CAPS["maxCredits"]),
    "maxRuntimeSeconds": ("runtime.maxRuntimeSeconds", _as_number, EXAMPLE_CAPS["maxRuntimeSeconds"]),
    "maxQueueSeconds": ("runtime.maxQueueSeconds", _as_number, 600),
    "webhookEvents": ("webhook.events", _as_list, ["job.terminal"]),
    "artifactsHtml": ("artifacts.html", _as_boolean, True),
    "artifactsCsv": ("artifacts.csv", _as_boolean, True),
    "artifactsJsonVersion": ("artifacts.json.version", _as_number, "2"),
}
HEADERS = {
    "X-Bnet-Client-Id": "credentials.bnetClientId",
    "X-Bnet-Client-Secret": "credentials.bnetClientSecret",
}
TWICE = "Send the game credentials in the body or in the headers, not both."
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
            description=f"Same as `{path}` in JSON. A JSON request can use either, but not both.",
            example="0123456789abcdef0123456789abcdef",
        )
        for name, path in HEADERS.items()
    ]


def _field_at(path: str) -> Any:
    """Return the field at a dotted path of the JSON request, without null; None if the variant lacks it."""
    field: Any = SubmissionFields()
    for name in path.split("."):
        field = field and field.fields.get(name)
    if field is not None:
        field.allow_null = False
    return field


def _style_of(name: str) -> dict[str, Any]:
    """Return further OpenAPI keywords of a query parameter."""
    if name == "webhookEvents":
        return {"style": "form", "explode": False}
    return {"deprecated": True} if name == api_mode.current().deprecated_cap_field else {}


def from_text(text: str, query: QueryDict, headers: Mapping[str, str]) -> Submission:
    """Return the submission in a plain-text request. Raises ProfileTooLarge or ValidationFailed."""
    body: dict[str, Any] = {"build": {}, "profile": {"text": text}}
    reject_large_profile(body)
    for name, value in single_values(query, known=PARAMETERS).items():
        path, convert, _ = PARAMETERS[name]
        set_at_path(body, path, convert(value))
    _add_credentials(body, headers)
    with _plain_text_names():
        fields = validated(SubmissionFields(data=body))
    return normalized(fields)


def with_credentials(body: Any, headers: Mapping[str, str]) -> Any:
    """Return a JSON body with the game credentials of the headers, if there are any.

    Raises ProfileTooLarge, or ValidationFailed if both have credentials or if a header is missing.
    """
    given = credential_headers_in(headers)
    if not given or not isinstance(body, dict):
        return body
    reject_large_profile(body)
    if body.get("credentials") is not None:
        raise ValidationFailed([{"path": name, "message": TWICE} for name in given])
    if missing := [name for name in HEADERS if name not in headers]:
        raise ValidationFailed([{"path": name, "message": HALF_PAIR} for name in missing])
    body = {**body, "credentials": {}}
    _add_credentials(body, headers)
    return body


def credential_headers_in(headers: Mapping[str, str]) -> list[str]:
    """Return the names of the headers with game credentials that a request has."""
    return [name for name in HEADERS if name in headers]


def _add_credentials(body: dict[str, Any], headers: Mapping[str, str]) -> None:
    """Add the game credentials of the headers to a body."""
    for name, path in HEADERS.items():
        if name in headers:
            set_at_path(body, path, headers[name])


def named_as_sent(request: Request) -> AbstractContextManager[None]:
    """Return a context whose errors name fields as the request does, in JSON or in plain text."""
    return _plain_text_names() if is_plain_text(request.content_type) else nullcontext()


@contextmanager
def _plain_text_names() -> Iterator[None]:
    """Replace paths of the JSON request by names of query parameters and headers.

    Raises ValidationFailed instead of these errors and of ValidationFailed itself.
    """
    try:
        yield
    except (ValidationFailed, LimitsExceeded, CapTooSmall) as error:
        issues = cast(ValidationFailed, as_api_error(error)).issues
        raise ValidationFailed([issue | {"path": _plain_name(issue["path"])} for issue in issues]) from None


def _plain_name(path: str) -> str:
    """Return the plain-text name of a JSON field."""
    return NAMES.get(path.partition("[")[0], path)
