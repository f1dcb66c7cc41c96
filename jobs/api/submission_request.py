"""Requests that submit a job: their fields, in JSON or as plain text (docs/reference/api.md#submit-a-job).

In a plain-text request, the profile is the body, and all other fields are query parameters and headers.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

from django.conf import settings
from django.core.validators import RegexValidator
from django.http import QueryDict
from drf_spectacular.utils import extend_schema_field, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request

from jobs import api_mode
from jobs.api.base import EXAMPLE_METADATA, EXAMPLE_PROFILE
from jobs.api.builds import EXAMPLE_BUILD_ID
from jobs.artifacts.credentials import GameCredentials
from jobs.enums import Channel, Priority
from jobs.errors import CapTooSmall, LimitsExceeded
from jobs.submission.request import Submission
from simservice.api.errors import ProfileTooLarge, ValidationFailed
from simservice.api.exception_handler import as_api_error
from simservice.api.fields import (
    StrictBooleanField,
    StrictCharField,
    StrictChoiceField,
    StrictIntegerField,
    StrictListField,
    StrictSecondsField,
    StrictSerializer,
    StrictUUIDField,
    Worded,
    as_integer,
    single_values,
    validated,
)
from simservice.api.operations import Parameter
from simservice.api.parsers import is_plain_text

MAX_PROFILE_BYTES = 2 * 1024 * 1024
MAX_METADATA_ENTRIES = 20
MAX_METADATA_KEY = 64
MAX_METADATA_VALUE = 500
MAX_METADATA_BYTES = 12 * 1024
# The simulator's credentials file is one line: the two parts with a colon between them.
CREDENTIAL = r"\A[\x21-\x39\x3b-\x7e]*\Z"
HALF_PAIR = "Required. Send the client ID and the secret together, or neither."
MAX_EVENTS = 10
# PostgreSQL cannot store NUL.
STORABLE = r"^[^\u0000]*$"
REPORT_VERSIONS = {"2": 2, "3": 3}
PRIORITIES = {priority.api_name: priority for priority in Priority}
CAPS = frozenset({"maxCredits", "maxRuntimeSeconds"})


@extend_schema_field(
    {
        "type": "object",
        "maxProperties": MAX_METADATA_ENTRIES,
        "propertyNames": {"minLength": 1, "maxLength": MAX_METADATA_KEY, "pattern": STORABLE},
        "additionalProperties": {"type": "string", "maxLength": MAX_METADATA_VALUE, "pattern": STORABLE},
        "description": f"Returned unchanged in responses. At most {MAX_METADATA_BYTES:,} bytes as JSON",
    }
)
class MetadataField(Worded, serializers.Field[dict[str, str], Any, Any, Any]):
    """A map of short strings that the service stores and returns unchanged."""

    def to_internal_value(self, data: Any) -> dict[str, str]:
        if not isinstance(data, dict):
            raise serializers.ValidationError("Must be an object.")
        if len(data) > MAX_METADATA_ENTRIES:
            raise serializers.ValidationError(f"Must have at most {MAX_METADATA_ENTRIES} entries.")
        problems = {key: [problem] for key, value in data.items() if (problem := metadata_problem(key, value))}
        if problems:
            raise serializers.ValidationError(problems)
        if len(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()) > MAX_METADATA_BYTES:
            raise serializers.ValidationError(f"Must have at most {MAX_METADATA_BYTES} bytes as JSON.")
        return data


def metadata_problem(key: str, value: Any) -> str | None:
    """Return the error in one entry of the metadata, or None."""
    if not 1 <= len(key) <= MAX_METADATA_KEY:
        return f"Names must have 1 to {MAX_METADATA_KEY} characters."
    if not isinstance(value, str):
        return "Must be a string."
    if len(value) > MAX_METADATA_VALUE:
        return f"Must have at most {MAX_METADATA_VALUE} characters."
    if not (is_storable(key) and is_storable(value)):
        return "Must not contain NUL or lone surrogate characters."
    return None


def is_storable(text: str) -> bool:
    """Return whether PostgreSQL can store a text: no NUL, and encodable as UTF-8."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def credential_field(*, length: int) -> StrictCharField:
    """Return a field whose value the simulator accepts; it rejects another length only after it has started."""
    message = f"Must have exactly {length} characters."
    return StrictCharField(
        min_length=length,
        max_length=length,
        required=False,
        validators=[
            RegexValidator(CREDENTIAL, "Must contain only printable ASCII characters, without spaces or colons.")
        ],
        error_messages={"min_length": message, "max_length": message, "blank": message},
    )


class BuildFields(StrictSerializer):
    """The simulator build that runs the job."""

    channel = StrictChoiceField(choices=Channel.values)
    gitBranch = StrictChoiceField(choices=settings.GIT_BRANCHES, required=False)
    id = StrictUUIDField(required=False)


@extend_schema_field({"type": "string", "maxLength": MAX_PROFILE_BYTES, "pattern": STORABLE})
class ProfileTextField(StrictCharField):
    """The profile. `reject_large_profile` has already checked its size in bytes."""


class ProfileFields(StrictSerializer):
    """The profile to simulate."""

    text = ProfileTextField(allow_blank=True)


@extend_schema_serializer(deprecate_fields=[name for name in [api_mode.current().deprecated_cap_field] if name])
class RuntimeFields(StrictSerializer):
    """Limits and options of the run."""

    multiStage = StrictBooleanField(default=False)
    # Its minimum depends on the plan.
    maxCredits = StrictIntegerField(required=False)
    maxRuntimeSeconds = StrictSecondsField(min_value=1, required=False)
    maxQueueSeconds = StrictIntegerField(min_value=1, required=False)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        variant = api_mode.current()
        caps = {variant.cap_field, variant.deprecated_cap_field}
        return {name: field for name, field in super().get_fields().items() if name not in CAPS or name in caps}

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs.keys() >= CAPS:
            raise serializers.ValidationError(dict.fromkeys(sorted(CAPS), "Only one of the two limits is allowed."))
        return attrs


class CredentialsFields(StrictSerializer):
    """Credentials for the game's API. Used for this job only. Encrypted, and deleted when the job ends."""

    bnetClientId = credential_field(length=settings.GAME_CLIENT_ID_LENGTH)
    bnetClientSecret = credential_field(length=settings.GAME_CLIENT_SECRET_LENGTH)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if missing := attrs and self.fields.keys() - attrs.keys():
            raise serializers.ValidationError(dict.fromkeys(missing, HALF_PAIR))
        return attrs


class WebhookFields(StrictSerializer):
    """The events to send to the webhook of the API key's client."""

    events = StrictListField(
        child=StrictChoiceField(choices=["job.terminal"]),
        max_length=MAX_EVENTS,
        required=False,
    )


@extend_schema_field(
    {"type": ["string", "integer"], "enum": [*REPORT_VERSIONS, *REPORT_VERSIONS.values(), None], "default": "2"}
)
class ReportVersionField(StrictChoiceField):
    """Version of the JSON report: a string or a number in requests, a number in the code."""

    def to_internal_value(self, data: Any) -> Any:
        number = as_integer(data)
        return REPORT_VERSIONS[super().to_internal_value(data if number is None else str(number))]


class JsonReportFields(StrictSerializer):
    """Options of the JSON report, which every job produces."""

    version = ReportVersionField(choices=list(REPORT_VERSIONS), required=False)


class ArtifactFields(StrictSerializer):
    """Reports to produce, and what the share link shows."""

    html = StrictBooleanField(default=False)
    csv = StrictBooleanField(default=False)
    json = JsonReportFields(required=False)
    # Whether the share link hides the profile and the logs
    hideInputs = StrictBooleanField(default=False)


class SubmissionFields(StrictSerializer):
    """A job submission."""

    build = BuildFields()
    profile = ProfileFields()
    runtime = RuntimeFields(required=False)
    priority = StrictChoiceField(choices=list(PRIORITIES), default="standard")
    metadata = MetadataField(default=dict)
    credentials = CredentialsFields(required=False)
    webhook = WebhookFields(required=False)
    artifacts = ArtifactFields(required=False)


VARIANT = api_mode.current()
EXAMPLE_CAPS = {"maxCredits": 3200, "maxRuntimeSeconds": 100}
EXAMPLE_SMALL_REQUEST: dict[str, Any] = {"build": {"channel": "latest"}, "profile": {"text": EXAMPLE_PROFILE}}
EXAMPLE_FULL_REQUEST: dict[str, Any] = {
    "build": {"channel": "weekly", "gitBranch": "midnight"},
    "profile": {"text": EXAMPLE_PROFILE},
    "runtime": {"multiStage": False, VARIANT.cap_field: EXAMPLE_CAPS[VARIANT.cap_field], "maxQueueSeconds": 600},
    "priority": "high",
    "metadata": EXAMPLE_METADATA,
    "artifacts": {"html": True, "csv": True, "json": {"version": "2"}},
}


def from_json(body: Any) -> Submission:
    """Return the submission in a JSON request. Raises ProfileTooLarge or ValidationFailed."""
    reject_large_profile(body)
    return normalized(validated(SubmissionFields(data=body)))


def reject_large_profile(body: Any) -> None:
    """Raise ProfileTooLarge; checked before all other fields (docs/reference/errors.md#order-of-checks)."""
    profile = body.get("profile") if isinstance(body, dict) else None
    text = profile.get("text") if isinstance(profile, dict) else None
    if isinstance(text, str) and len(text.encode("utf-8", "surrogatepass")) > MAX_PROFILE_BYTES:
        raise ProfileTooLarge


def set_at_path(body: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at a dotted path, creating the objects on the way."""
    *parents, last = path.split(".")
    for parent in parents:
        body = body.setdefault(parent, {})
    body[last] = value


def normalized(fields: Mapping[str, Any]) -> Submission:
    """Return the submission in validated fields, the same for JSON and plain text."""
    build, runtime, artifacts = fields["build"], fields.get("runtime", {}), fields.get("artifacts", {})
    pair = fields.get("credentials") or None
    return Submission(
        channel=Channel(build["channel"]),
        git_branch=build.get("gitBranch", settings.GIT_BRANCHES[0]),
        build_id=build.get("id"),
        profile_text=fields["profile"]["text"],
        multi_stage=runtime.get("multiStage", False),
        max_credits=runtime.get("maxCredits"),
        max_runtime_seconds=runtime.get("maxRuntimeSeconds"),
        max_queue_seconds=runtime.get("maxQueueSeconds"),
        priority=PRIORITIES[fields["priority"]],
        metadata=fields["metadata"],
        credentials=pair
        and GameCredentials(client_id=pair["bnetClientId"], client_secret=pair["bnetClientSecret"]),
        html=artifacts.get("html", False),
        csv=artifacts.get("csv", False),
        hides_inputs=artifacts.get("hideInputs", False),
        json_version=artifacts.get("json", {}).get("version", REPORT_VERSIONS["2"]),
        webhook_events=tuple(sorted(set(fields.get("webhook", {}).get("events", ())))),
    )


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
    "webhookEvents": ("webhook.events", lambda text: text.split(","), ["job.terminal"]),
    "artifactsHtml": ("artifacts.html", _as_boolean, True),
    "artifactsCsv": ("artifacts.csv", _as_boolean, True),
    "artifactsJsonVersion": ("artifacts.json.version", _as_number, "2"),
    "artifactsHideInputs": ("artifacts.hideInputs", _as_boolean, True),
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
    fields = {name: field_at(path) for name, (path, _, _) in PARAMETERS.items()}
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
            shape=field_at(path),
            description=f"Same as `{path}` in JSON. A JSON request can use either, but not both.",
            example="0123456789abcdef0123456789abcdef",
        )
        for name, path in HEADERS.items()
    ]


def field_at(path: str) -> Any:
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
    with errors_named(NAMES):
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
    return errors_named(NAMES) if is_plain_text(request.content_type) else nullcontext()


@contextmanager
def errors_named(names: Mapping[str, str]) -> Iterator[None]:
    """Replace paths of the JSON request by the names that another form of it has.

    Raises ValidationFailed instead of these errors and of ValidationFailed itself.
    """
    try:
        yield
    except (ValidationFailed, LimitsExceeded, CapTooSmall) as error:
        issues = cast(ValidationFailed, as_api_error(error)).issues
        named = [issue | {"path": names.get(issue["path"].partition("[")[0], issue["path"])} for issue in issues]
        raise ValidationFailed(named) from None
