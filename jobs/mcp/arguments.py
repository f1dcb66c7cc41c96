"""The arguments of tools, with their rules, their JSON Schema, and errors worded like the API's."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from rest_framework import serializers

from jobs.api.status import LONGEST_WAIT_SECONDS
from jobs.api.submission import IDEMPOTENCY, IDEMPOTENCY_KEY, KEY_RULE
from jobs.api.submission_request import PARAMETERS, errors_named, field_at, from_json, set_at_path
from jobs.results.comparison import MAX_JOBS
from jobs.submission.request import Submission
from simservice.api.errors import ValidationFailed
from simservice.api.fields import (
    MAX_ISSUES,
    StrictCharField,
    StrictIntegerField,
    StrictListField,
    StrictSerializer,
)
from simservice.api.jsonschema import Schema, schema_of
from simservice.api.openapi import DocumentedSchema

KEY = "idempotencyKey"
# The path of each argument in a JSON submission. The names are those of plain-text requests.
PATHS = {
    "profile": "profile.text",
    **{name: path for name, (path, _, _) in PARAMETERS.items()},
    "metadata": "metadata",
}
NAMES = {path: name for name, path in PATHS.items()}
ABOUT = {
    "profile": "The text of the profile, as the game's SimulationCraft addon exports it.",
    "channel": "The build of the simulator. Use `latest` unless the user wants another one.",
    "multiStage": "Whether to run in stages and drop variants that are clearly worse after each.",
    "maxCredits": "The credit limit of the job.",
    "metadata": "Custom text fields, returned with the job.",
    KEY: "A unique value. A repeated call with the same value returns the first job and submits no other.",
}
JOB_ID = "The id of the job, which is also the id of its task."
MAX_RANKED = 100


class NoArguments(StrictSerializer):
    """No arguments."""


class JobArguments(StrictSerializer):
    """A job."""

    jobId = StrictCharField(help_text=JOB_ID)


class WaitArguments(JobArguments):
    """A job, and how long to wait for a change."""

    seconds = StrictIntegerField(
        min_value=0,
        max_value=LONGEST_WAIT_SECONDS,
        default=LONGEST_WAIT_SECONDS,
        help_text="How long to wait for the status or percentage to change.",
    )


class RankArguments(JobArguments):
    """A job, and a part of its ranking."""

    first = StrictIntegerField(min_value=1, default=1, help_text="The rank of the first entry to return.")
    limit = StrictIntegerField(
        min_value=1, max_value=MAX_RANKED, default=20, help_text="The number of entries to return."
    )


class CompareArguments(StrictSerializer):
    """The jobs to compare."""

    jobIds = StrictListField(
        child=StrictCharField(),
        min_length=2,
        max_length=MAX_JOBS,
        help_text="The ids of the jobs. The others are compared with the first one.",
    )


def schema_of_fields(kind: type[serializers.Serializer[Any]]) -> Schema:
    """Return the JSON Schema of the arguments in the fields of a serializer."""
    return _schema(kind().fields)


def schema_of_submission(*, has_key: bool) -> Schema:
    """Return the JSON Schema of a submission's arguments, those that the deployment's variant accepts."""
    fields = {name: field_at(path) for name, path in PATHS.items()}
    schema = _schema({name: field for name, field in fields.items() if field is not None})
    if has_key:
        schema["properties"][KEY] = {**schema_of(IDEMPOTENCY.shape, _no_component), "description": ABOUT[KEY]}
    # Those of nested fields are required where their object is.
    return {**schema, "required": ["profile", "channel"]}


def _schema(fields: Mapping[str, Any]) -> Schema:
    mapper = DocumentedSchema()
    properties = {name: mapper.field_schema(field) for name, field in fields.items()}
    described = {name: {"description": ABOUT[name]} for name in properties if name in ABOUT}
    return {
        "type": "object",
        "properties": {name: {**schema, **described.get(name, {})} for name, schema in properties.items()},
        "required": [name for name, field in fields.items() if field.required],
        "additionalProperties": False,
    }


def _no_component(name: str, *_: object) -> Schema:
    raise TypeError(f"the arguments of tools are flat, but {name} is an object")


def read_submission(arguments: Mapping[str, Any]) -> Submission:
    """Return the submission in the arguments. Raises ProfileTooLarge or ValidationFailed."""
    if unknown := [name for name in arguments if name not in PATHS]:
        raise ValidationFailed([{"path": name[:100], "message": "Unknown field."} for name in unknown[:MAX_ISSUES]])
    body: dict[str, Any] = {"build": {}, "profile": {}}
    for name, value in arguments.items():
        set_at_path(body, PATHS[name], value)
    with argument_names():
        return from_json(body)


def argument_names() -> AbstractContextManager[None]:
    """Return a context whose errors name the arguments."""
    return errors_named(NAMES)


def read_key(arguments: Mapping[str, Any]) -> str | None:
    """Return the idempotency key of a run, or None. Raises ValidationFailed if it is invalid."""
    key = arguments.get(KEY)
    if key is None or (isinstance(key, str) and IDEMPOTENCY_KEY.match(key)):
        return key
    raise ValidationFailed([{"path": KEY, "message": KEY_RULE}])
