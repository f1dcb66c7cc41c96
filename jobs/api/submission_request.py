"""Fields of a submission and their validation (docs/reference/api.md#submit-a-job)."""

import json
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.validators import RegexValidator
from drf_spectacular.utils import extend_schema_field, extend_schema_serializer
from rest_framework import serializers

from jobs import api_mode
from jobs.api.base import EXAMPLE_METADATA, EXAMPLE_PROFILE
from jobs.artifacts.credentials import GameCredentials
from jobs.enums import Channel, Priority
from jobs.submission.request import Submission
from simservice.api.errors import ProfileTooLarge
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
    validated,
)

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
    """Reports to produce."""

    html = StrictBooleanField(default=False)
    csv = StrictBooleanField(default=False)
    json = JsonReportFields(required=False)


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
        credentials=_credentials(fields),
        html=artifacts.get("html", False),
        csv=artifacts.get("csv", False),
        json_version=artifacts.get("json", {}).get("version", REPORT_VERSIONS["2"]),
        webhook_events=tuple(sorted(set(fields.get("webhook", {}).get("events", ())))),
    )


def _credentials(fields: Mapping[str, Any]) -> GameCredentials | None:
    """Return the game credentials in validated fields, or None."""
    pair = fields.get("credentials")
    return GameCredentials(client_id=pair["bnetClientId"], client_secret=pair["bnetClientSecret"]) if pair else None
