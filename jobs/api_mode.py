"""All differences between the API variants R and C: `docs/reference/api.md#variants`.

Code that depends on the variant reads a property of `current()`. Nothing else checks which variant is deployed.
"""

from dataclasses import dataclass

from django.conf import settings

from billing.models import Plan
from jobs.enums import ErrorCode


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A column of the table in `docs/reference/api.md#variants`. Times are in seconds."""

    # The field of `runtime` that caps a job, and the deprecated field that is still accepted
    cap_field: str
    deprecated_cap_field: str | None
    # The cap of a request without one. If None, credits are reserved during the run, up to the plan's limit.
    default_runtime_seconds: int | None
    # The queue limit of a request without one, None for the default of the plan
    default_queue_seconds: int | None
    # Whether a cap in seconds is reserved in full, not only the estimate
    reserves_runtime_caps: bool
    # Whether responses contain the ceiling in credits
    shows_credit_ceiling: bool
    # The errorCode of a job that reaches its cap
    cap_reached: str
    # Whether the CSV report has a row for each actor, or only for the baseline
    csv_has_every_actor: bool
    # Whether webhook events contain the errorCode
    webhook_has_error_code: bool

    def default_runtime_for(self, plan: Plan) -> int | None:
        """Return the cap in seconds of a request without one, within the plan's limit, or None."""
        return self.default_runtime_seconds and min(self.default_runtime_seconds, plan.max_runtime_seconds)

    def default_queue_for(self, plan: Plan) -> int:
        """Return the queue limit in seconds of a request without one, within the plan's limit."""
        return min(self.default_queue_seconds or plan.default_queue_seconds, plan.max_queue_seconds)


VARIANTS = {
    "R": Variant(
        cap_field="maxRuntimeSeconds",
        deprecated_cap_field=None,
        default_runtime_seconds=300,
        default_queue_seconds=1800,
        reserves_runtime_caps=True,
        shows_credit_ceiling=False,
        cap_reached=ErrorCode.EXECUTION_TIMEOUT,
        csv_has_every_actor=False,
        webhook_has_error_code=False,
    ),
    "C": Variant(
        cap_field="maxCredits",
        deprecated_cap_field="maxRuntimeSeconds",
        default_runtime_seconds=None,
        default_queue_seconds=None,
        reserves_runtime_caps=False,
        shows_credit_ceiling=True,
        cap_reached=ErrorCode.MAX_CREDITS_REACHED,
        csv_has_every_actor=True,
        webhook_has_error_code=True,
    ),
}


def current() -> Variant:
    """Return the deployment's variant."""
    return VARIANTS[settings.API_VARIANT]
