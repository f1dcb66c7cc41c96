"""Handwritten schemas of usage and credits."""

from tests.jobs.api.contract.types import COUNT, ID, NUMBER, POSITIVE, TIME, an_object, matching, one_of, or_null

PLAN = an_object(
    {
        "maxActiveJobs": COUNT,
        "maxCreditsPerJob": COUNT,
        "defaultCreditsPerJob": or_null(COUNT),
        "maxRuntimeSeconds": COUNT,
        "defaultRuntimeSeconds": or_null(COUNT),
        "maxQueueSeconds": COUNT,
        "defaultQueueSeconds": COUNT,
        "creditsPerSecond": POSITIVE,
        "vcpuPerJob": POSITIVE,
        "maxParallelSlots": POSITIVE,
        "maxSimcVariants": COUNT,
        "pool": one_of("standard", "warm", "dedicated"),
        "priorityFeeCredits": an_object({"high": COUNT}),
    }
)
PERIOD = an_object(
    {
        "start": TIME,
        "end": TIME,
        "simsRun": COUNT,
        "avgRuntimeSeconds": or_null(NUMBER),
        "readsUsed": or_null(COUNT),
        "readsLimit": COUNT,
        "readsCapResetAt": or_null(TIME),
    }
)
SNAPSHOT = an_object({"activeJobs": COUNT, "queuedJobs": COUNT, "runningJobs": COUNT})
GRANT = an_object(
    {
        "id": ID,
        "reason": one_of(
            "grant_developer_allowance",
            "grant_beta",
            "grant_promo",
            "grant_onboarding",
            "onboarding",
            "allowance",
            "promo",
        ),
        "note": or_null(matching("(?s:.+)")),
        "remaining": COUNT,
        "original": COUNT,
        "expiresAt": or_null(TIME),
    }
)
