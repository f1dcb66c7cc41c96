"""The body of a submission, checked to its last key (specification, Resources; contract, section 3)."""

import json
from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from jobs.models import Channel, Priority
from jobs.submission import Submission
from simservice.api.errors import ProfileTooLarge
from simservice.api.fields import (
    StrictBooleanField,
    StrictCharField,
    StrictChoiceField,
    StrictIntegerField,
    StrictSerializer,
    StrictUUIDField,
    validated,
)

MAX_PROFILE_BYTES = 2 * 1024 * 1024
MAX_METADATA_ENTRIES = 20
MAX_METADATA_KEY = 64
MAX_METADATA_VALUE = 500
MAX_METADATA_BYTES = 12 * 1024
# A text that PostgreSQL can keep, as the documentation says it.
STORABLE = r"^[^\u0000]*$"
PRIORITIES = {priority.name.lower(): priority for priority in Priority}


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


class BuildFields(StrictSerializer):
    channel = StrictChoiceField(choices=Channel.values)
    gitBranch = StrictChoiceField(choices=settings.GIT_BRANCHES, required=False)
    id = StrictUUIDField(required=False)


class ProfileFields(StrictSerializer):
    text = StrictCharField(allow_blank=True)


class RuntimeFields(StrictSerializer):
    maxCredits = StrictIntegerField(min_value=1, required=False)
    maxQueueSeconds = StrictIntegerField(min_value=1, required=False)


class WebhookFields(StrictSerializer):
    events = serializers.ListField(child=StrictChoiceField(choices=["job.terminal"]), allow_empty=False)


class JsonReportFields(StrictSerializer):
    version = StrictChoiceField(choices=[2, 3], default=2)


class ArtifactFields(StrictSerializer):
    html = StrictBooleanField(default=False)
    json = JsonReportFields(required=False)


class SubmissionFields(StrictSerializer):
    build = BuildFields()
    profile = ProfileFields()
    runtime = RuntimeFields(required=False)
    priority = StrictChoiceField(choices=list(PRIORITIES), default="standard")
    metadata = MetadataField(default=dict)
    webhook = WebhookFields(required=False)
    artifacts = ArtifactFields(required=False)


def read_submission(body: Any) -> Submission:
    """Return the request a JSON body stands for. Raises ProfileTooLarge or ValidationFailed."""
    refuse_large_profile(body)
    fields = validated(SubmissionFields(data=body))
    runtime, artifacts = fields.get("runtime", {}), fields.get("artifacts", {})
    return Submission(
        channel=Channel(fields["build"]["channel"]),
        git_branch=fields["build"].get("gitBranch", settings.GIT_BRANCHES[0]),
        build_id=fields["build"].get("id"),
        profile_text=fields["profile"]["text"],
        max_credits=runtime.get("maxCredits"),
        max_queue_seconds=runtime.get("maxQueueSeconds"),
        priority=PRIORITIES[fields["priority"]],
        metadata=fields["metadata"],
        html=artifacts.get("html", False),
        json_version=artifacts.get("json", {}).get("version", 2),
        webhook_events=tuple(fields.get("webhook", {}).get("events", ())),
    )


def refuse_large_profile(body: Any) -> None:
    """Raise ProfileTooLarge before the form is looked at: size comes first in the contract's order of checks."""
    profile = body.get("profile") if isinstance(body, dict) else None
    text = profile.get("text") if isinstance(profile, dict) else None
    if isinstance(text, str) and len(text.encode("utf-8", "surrogatepass")) > MAX_PROFILE_BYTES:
        raise ProfileTooLarge
