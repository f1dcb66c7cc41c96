"""A submission in either of its forms, checked to its last key (specification, Resources; contract, section 3)."""

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

from jobs import variants
from jobs.credentials import GameCredentials
from jobs.enums import Channel, Priority
from jobs.errors import LimitsExceeded
from jobs.submission.request import Submission
from simservice.api.errors import ProfileTooLarge, ValidationFailed
from simservice.api.exception_handler import as_api_error
from simservice.api.fields import (
    StrictBooleanField,
    StrictCharField,
    StrictChoiceField,
    StrictIntegerField,
    StrictListField,
    StrictSerializer,
    StrictUUIDField,
    as_integer,
    validated,
)
from simservice.api.parsers import is_plain_text
from simservice.api.query import single_values

MAX_PROFILE_BYTES = 2 * 1024 * 1024
MAX_METADATA_ENTRIES = 20
MAX_METADATA_KEY = 64
MAX_METADATA_VALUE = 500
MAX_METADATA_BYTES = 12 * 1024
MAX_CREDENTIAL = 256
MAX_EVENTS = 10
# A text that PostgreSQL can keep, as the documentation says it.
STORABLE = r"^[^\u0000]*$"
REPORT_VERSIONS = {"2": 2, "3": 3}
PRIORITIES = {priority.name.lower(): priority for priority in Priority}
CAPS = frozenset({"maxCredits", "maxRuntimeSeconds"})


@extend_schema_field(
    {
        "type": "object",
        "maxProperties": MAX_METADATA_ENTRIES,
        "propertyNames": {"minLength": 1, "maxLength": MAX_METADATA_KEY, "pattern": STORABLE},
        "additionalProperties": {"type": "string", "maxLength": MAX_METADATA_VALUE, "pattern": STORABLE},
        "description": f"Echoed unchanged; at most {MAX_METADATA_BYTES} bytes as JSON",
    }
)
class MetadataField(serializers.Field[dict[str, str], Any, Any, Any]):
    """An opaque map of short strings, echoed unchanged."""

    def to_internal_value(self, data: Any) -> dict[str, str]:
        if not isinstance(data, dict):
            raise serializers.ValidationError("Must be an object.")
        if len(data) > MAX_METADATA_ENTRIES:
            raise serializers.ValidationError(f"At most {MAX_METADATA_ENTRIES} entries.")
        problems = {key: [problem] for key, value in data.items() if (problem := metadata_problem(key, value))}
        if problems:
            raise serializers.ValidationError(problems)
        if len(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()) > MAX_METADATA_BYTES:
            raise serializers.ValidationError(f"At most {MAX_METADATA_BYTES} bytes of JSON in all.")
        return data


def metadata_problem(key: str, value: Any) -> str | None:
    """Return what is wrong with one entry of the metadata, or None."""
    if not 1 <= len(key) <= MAX_METADATA_KEY:
        return f"Keys have 1 to {MAX_METADATA_KEY} characters."
    if not isinstance(value, str):
        return "Must be a string."
    if len(value) > MAX_METADATA_VALUE:
        return f"At most {MAX_METADATA_VALUE} characters."
    if not (is_storable(key) and is_storable(value)):
        return "NUL characters and lone surrogates are not allowed."
    return None


def is_storable(text: str) -> bool:
    """Tell whether PostgreSQL can keep a text: no NUL, and encodable as UTF-8."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def credential_field() -> StrictCharField:
    """Return a field that fits into the simulator's own file of credentials: one word, one line."""
    word = RegexValidator(r"\A[\x21-\x7e]*\Z", "Must be printable ASCII without spaces.")
    return StrictCharField(max_length=MAX_CREDENTIAL, validators=[word])


class BuildFields(StrictSerializer):
    """Which build of the simulator runs the job."""

    channel = StrictChoiceField(choices=Channel.values)
    gitBranch = StrictChoiceField(choices=settings.GIT_BRANCHES, required=False)
    id = StrictUUIDField(required=False)


@extend_schema_field({"type": "string", "maxLength": MAX_PROFILE_BYTES, "pattern": STORABLE})
class ProfileTextField(StrictCharField):
    """A profile; its size in bytes is looked at before anything else."""


class ProfileFields(StrictSerializer):
    """What is simulated."""

    text = ProfileTextField(allow_blank=True)


@extend_schema_serializer(deprecate_fields=[name for name in [variants.current().deprecated_cap_field] if name])
class RuntimeFields(StrictSerializer):
    """How the job may run."""

    multiStage = StrictBooleanField(default=False)
    maxCredits = StrictIntegerField(min_value=1, required=False)
    maxRuntimeSeconds = StrictIntegerField(min_value=1, required=False)
    maxQueueSeconds = StrictIntegerField(min_value=1, required=False)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        variant = variants.current()
        caps = {variant.cap_field, variant.deprecated_cap_field}
        return {name: field for name, field in super().get_fields().items() if name not in CAPS or name in caps}

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs.keys() >= CAPS:
            raise serializers.ValidationError(dict.fromkeys(sorted(CAPS), "Give only one of the two caps."))
        return attrs


class CredentialsFields(StrictSerializer):
    """The game platform's API client, for this job only; never kept."""

    bnetClientId = credential_field()
    bnetClientSecret = credential_field()


class WebhookFields(StrictSerializer):
    """The events that the webhook of the key's client receives."""

    events = StrictListField(
        child=StrictChoiceField(choices=["job.terminal"]), allow_empty=False, max_length=MAX_EVENTS, required=False
    )


@extend_schema_field({"enum": [*REPORT_VERSIONS, *REPORT_VERSIONS.values()], "default": "2"})
class ReportVersionField(StrictChoiceField):
    """The version of the JSON report: a string or a number in requests, a number in the rest of the code."""

    def to_internal_value(self, data: Any) -> Any:
        number = as_integer(data)
        return REPORT_VERSIONS[super().to_internal_value(data if number is None else str(number))]


class JsonReportFields(StrictSerializer):
    """The JSON report, which every job has."""

    version = ReportVersionField(choices=list(REPORT_VERSIONS), required=False)


class ArtifactFields(StrictSerializer):
    """Which reports the job should leave."""

    html = StrictBooleanField(default=False)
    csv = StrictBooleanField(default=False)
    json = JsonReportFields(required=False)


class SubmissionFields(StrictSerializer):
    """A request for a job."""

    build = BuildFields()
    profile = ProfileFields()
    runtime = RuntimeFields(required=False)
    priority = StrictChoiceField(choices=list(PRIORITIES), default="standard")
    metadata = MetadataField(default=dict)
    credentials = CredentialsFields(required=False)
    webhook = WebhookFields(required=False)
    artifacts = ArtifactFields(required=False)


def read_submission(request: Request) -> Submission:
    """Return the request a call stands for, in whichever form. Raises ProfileTooLarge or ValidationFailed."""
    body: Any = request.data
    if is_plain_text(request.content_type):
        # An empty body reaches no parser.
        return from_text(body if isinstance(body, str) else "", request.query_params, request.headers)
    if request.query_params:
        message = "Query parameters belong to the plain-text form."
        raise ValidationFailed([{"path": name, "message": message} for name in request.query_params])
    return from_json(body)


def from_json(body: Any) -> Submission:
    """Return the request a JSON body stands for. Raises ProfileTooLarge or ValidationFailed."""
    refuse_large_profile(body)
    return normalised(validated(SubmissionFields(data=body)))


def refuse_large_profile(body: Any) -> None:
    """Raise ProfileTooLarge before the form is looked at: size comes first in the contract's order of checks."""
    profile = body.get("profile") if isinstance(body, dict) else None
    text = profile.get("text") if isinstance(profile, dict) else None
    if isinstance(text, str) and len(text.encode("utf-8", "surrogatepass")) > MAX_PROFILE_BYTES:
        raise ProfileTooLarge


def as_boolean(text: str) -> bool | str:
    """Return a literal boolean, or the text for the form's own complaint."""
    return {"true": True, "false": False}.get(text, text)


def as_number(text: str) -> int | str:
    """Return an integer, also for `60.0` as in JSON, or the text if it is none, so that the form refuses it.

    Accepts as many digits as fit into an address: the account's limit refuses what is too large.
    """
    found = re.fullmatch(r"(-?[0-9]{1,4000})(\.0+)?", text)
    return int(found[1]) if found else text


def as_list(text: str) -> list[str]:
    """Return the parts of a comma-separated text."""
    return text.split(",")


# Where each query parameter of the plain-text form stands in the JSON form, and how it is read.
PARAMETERS: dict[str, tuple[str, Any]] = {
    "channel": ("build.channel", str),
    "gitBranch": ("build.gitBranch", str),
    "buildId": ("build.id", str),
    "priority": ("priority", str),
    "multiStage": ("runtime.multiStage", as_boolean),
    "maxCredits": ("runtime.maxCredits", as_number),
    "maxRuntimeSeconds": ("runtime.maxRuntimeSeconds", as_number),
    "maxQueueSeconds": ("runtime.maxQueueSeconds", as_number),
    "webhookEvents": ("webhook.events", as_list),
    "artifactsHtml": ("artifacts.html", as_boolean),
    "artifactsCsv": ("artifacts.csv", as_boolean),
    "artifactsJsonVersion": ("artifacts.json.version", as_number),
}
HEADERS = {
    "X-Bnet-Client-Id": "credentials.bnetClientId",
    "X-Bnet-Client-Secret": "credentials.bnetClientSecret",
}
# What the plain-text form calls the places of the JSON form.
PLAIN_NAMES = (
    {place: name for name, (place, _) in PARAMETERS.items()}
    | {place: name for name, place in HEADERS.items()}
    | {"profile.text": "body"}
)


def from_text(text: str, query: QueryDict, headers: Mapping[str, str]) -> Submission:
    """Return the request a plain text, its query and its headers stand for. Raises as `from_json` does."""
    body: dict[str, Any] = {"build": {}, "profile": {"text": text}}
    refuse_large_profile(body)
    for name, value in single_values(query, known=PARAMETERS).items():
        place, read = PARAMETERS[name]
        put(body, place, read(value))
    for name, place in HEADERS.items():
        if name in headers:
            put(body, place, headers[name])
    with parameters_named():
        fields = validated(SubmissionFields(data=body))
    return normalised(fields)


def put(body: dict[str, Any], place: str, value: Any) -> None:
    """Set the value at a dotted place of nested objects, which are made as needed."""
    *parents, last = place.split(".")
    for parent in parents:
        body = body.setdefault(parent, {})
    body[last] = value


def named_as_sent(request: Request) -> AbstractContextManager[None]:
    """Let what a block refuses name what the caller wrote, in whichever form."""
    return parameters_named() if is_plain_text(request.content_type) else nullcontext()


@contextmanager
def parameters_named() -> Iterator[None]:
    """Let what the block refuses name the plain-text form's parameters and not their places in the JSON form."""
    try:
        yield
    except (ValidationFailed, LimitsExceeded) as error:
        issues = cast(ValidationFailed, as_api_error(error)).issues
        raise ValidationFailed([issue | {"path": plain_name(issue["path"])} for issue in issues]) from None


def plain_name(path: str) -> str:
    """Return what the plain-text form calls a path of the JSON form."""
    return PLAIN_NAMES.get(path.partition("[")[0], path)


def normalised(fields: Mapping[str, Any]) -> Submission:
    """Return the one request that both forms become before any rule looks at it."""
    build, runtime, artifacts = fields["build"], fields.get("runtime", {}), fields.get("artifacts", {})
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
        credentials=credentials_of(fields),
        html=artifacts.get("html", False),
        csv=artifacts.get("csv", False),
        json_version=artifacts.get("json", {}).get("version", REPORT_VERSIONS["2"]),
        webhook_events=tuple(sorted(set(fields.get("webhook", {}).get("events", ())))),
    )


def credentials_of(fields: Mapping[str, Any]) -> GameCredentials | None:
    """Return the game credentials that came along, or None."""
    given = fields.get("credentials")
    return given and GameCredentials(client_id=given["bnetClientId"], client_secret=given["bnetClientSecret"])
