"""Handwritten schemas of builds."""

from tests.jobs.api.contract.types import (
    CHANNEL,
    COUNT,
    DATE,
    TEXT,
    TIME,
    UUID,
    an_object,
    many,
    matching,
    one_of,
    or_null,
)

CI_STATUS = one_of("pass", "partial", "fail", "unknown")
CI = an_object(
    {
        "status": CI_STATUS,
        "checks": an_object({"total": COUNT, "passed": COUNT, "failed": COUNT}),
        "failures": many(TEXT),
        "gatedOn": many(TEXT),
        "retrievedAt": TIME,
    }
)
JOB_BUILD = an_object(
    {
        "id": UUID,
        "channel": CHANNEL,
        "commit": TEXT,
        "ci": or_null(an_object({"status": CI_STATUS, "failed": COUNT})),
    }
)
GAME = an_object({"version": matching(".+"), "hotfixDate": DATE})
BUILD_FIELDS = {
    "gitBranch": TEXT,
    "repo": TEXT,
    "commit": TEXT,
    "simcVersion": TEXT,
    "gameData": or_null(an_object({"live": GAME, "ptr": or_null(GAME)})),
    "id": UUID,
    "createdAt": TIME,
    "ci": or_null(CI),
    "profiles": or_null(an_object({"manifest": many(TEXT), "includable": many(TEXT)})),
}
BUILD = an_object(BUILD_FIELDS)
BUILDS = an_object({"generatedAt": TIME, "builds": many(an_object({"channel": CHANNEL} | BUILD_FIELDS))})
