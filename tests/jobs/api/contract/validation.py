"""Handwritten schema of a dry run."""

from tests.jobs.api.contract.jobs import DEPRECATION, WARNING, ceiling
from tests.jobs.api.contract.types import (
    BOOLEAN,
    COUNT,
    LABEL,
    NUMBER,
    POSITIVE,
    TEXT,
    UUID,
    Schema,
    an_object,
    many,
    or_null,
)

REFUSAL = an_object(
    {
        "status": {"type": "integer", "minimum": 400, "maximum": 503},
        "error": TEXT,
        "code": TEXT,
        "meta": or_null({"type": "object"}),
    }
)
STAGES = an_object(
    {
        "enabled": BOOLEAN,
        "reason": TEXT,
        "stages": many(an_object({"stage": POSITIVE, "label": LABEL, "targetError": NUMBER}), 3),
    }
)
BUILD = an_object({"id": UUID, "gitBranch": TEXT, "commit": TEXT, "simcVersion": TEXT})
ESTIMATE = an_object(
    {
        "simSeconds": an_object(dict.fromkeys(("low", "expected", "high"), NUMBER)),
        "credits": an_object(dict.fromkeys(("low", "expected", "high"), COUNT)),
        "basis": an_object({"jobs": POSITIVE, "ownJobs": BOOLEAN, "sameBuild": BOOLEAN}),
    }
)


def validation(variant: str) -> Schema:
    """Return the schema of a dry run; `valid` and `refusal` agree."""
    fields = {
        "valid": BOOLEAN,
        "refusal": or_null(REFUSAL),
        "refusedLines": many(an_object({"line": POSITIVE, "text": TEXT, "reason": TEXT}), 20),
        "refusedCount": COUNT,
        "warnings": many(WARNING, 100),
        "deprecations": many(DEPRECATION),
        "variants": COUNT,
        "actors": COUNT,
        "names": many(TEXT, 20),
        "multiStage": STAGES,
        "build": or_null(BUILD),
        "runtime": an_object({"ceiling": or_null(ceiling(variant)), "priorityFeeCredits": COUNT}),
        "start": or_null(an_object({"jobsAhead": COUNT, "estimatedStartSeconds": or_null(COUNT)})),
        "estimate": or_null(ESTIMATE),
    }
    return an_object(fields) | {
        "if": {"properties": {"valid": {"const": True}}},
        "then": {"properties": {"refusal": {"type": "null"}}},
        "else": {"properties": {"refusal": {"type": "object"}}},
    }
