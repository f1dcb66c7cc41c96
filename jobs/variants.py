"""All differences between the API variants R and C: `docs/reference/contract.md#variants`.

Code that must differ asks `current()` for a property; nothing else asks which variant it is.
"""

from dataclasses import dataclass

from django.conf import settings

from billing.models import Plan
from jobs.enums import ErrorCode


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One column of the table in `docs/reference/contract.md#variants`. Times are in seconds."""

    # The field of `runtime` that caps a job, and one that is still read in its place.
    cap_field: str
    deprecated_cap_field: str | None
    # The cap of a request that names none; None: credits are reserved as the job runs, up to the plan's ceiling.
    default_runtime_seconds: int | None
    # The queue wait of a request that names none; None: the plan's.
    default_queue_seconds: int | None
    # Whether a ceiling in credits is part of what callers are told.
    tells_credit_ceiling: bool
    # The job's errorCode when it reaches its cap.
    cap_reached: str
    # Whether the CSV has a row for each actor, or for the baseline only.
    csv_has_every_actor: bool
    # Whether the webhook's payload carries the job's errorCode.
    webhook_has_error_code: bool

    def default_runtime_for(self, plan: Plan) -> int | None:
        """Return the cap of a request that names none, within the plan's, or None."""
        return self.default_runtime_seconds and min(self.default_runtime_seconds, plan.max_runtime_seconds)

    def default_queue_for(self, plan: Plan) -> int:
        """Return the queue wait of a request that names none, within the plan's."""
        return min(self.default_queue_seconds or plan.default_queue_seconds, plan.max_queue_seconds)


VARIANTS = {
    "R": Variant(
        cap_field="maxRuntimeSeconds",
        deprecated_cap_field=None,
        default_runtime_seconds=300,
        default_queue_seconds=1800,
        tells_credit_ceiling=False,
        cap_reached=ErrorCode.EXECUTION_TIMEOUT,
        csv_has_every_actor=False,
        webhook_has_error_code=False,
    ),
    "C": Variant(
        cap_field="maxCredits",
        deprecated_cap_field="maxRuntimeSeconds",
        default_runtime_seconds=None,
        default_queue_seconds=None,
        tells_credit_ceiling=True,
        cap_reached=ErrorCode.MAX_CREDITS_REACHED,
        csv_has_every_actor=True,
        webhook_has_error_code=True,
    ),
}


def current() -> Variant:
    """Return the deployment's variant."""
    return VARIANTS[settings.API_VARIANT]
