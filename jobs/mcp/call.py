"""The call of a tool: who calls it, and how it waits for a job."""

from collections.abc import Collection, Hashable
from dataclasses import dataclass

from rest_framework.request import Request

from billing.models import Account
from clients.authentication import Caller, require_scope
from clients.rate_limits import length_of
from jobs.api.links import LinkBuilder
from jobs.api.polling import state_of, states_of
from jobs.live.progress import progress_of
from jobs.models import Job
from simservice.api.scopes import Scope
from simservice.web.waiting import ReadStates, park

# A message that waits stays in memory. Messages that need to wait have a few hundred bytes.
MAX_WAITING_BYTES = 4 << 10


@dataclass(frozen=True, kw_only=True)
class Call:
    """A message of an authenticated caller."""

    request: Request
    caller: Caller
    links: LinkBuilder

    @property
    def account(self) -> Account:
        return self.caller.account

    def wait(self, job: Job, *, seconds: float) -> None:
        """Let the web server repeat this message when an unfinished job has changed, or after the seconds."""
        self._park(job, state=state_of(job, progress_of(job)), seconds=seconds, read_states=states_of)

    def wait_for_end(self, job: Job, *, seconds: float) -> None:
        """Let the web server repeat this message when an unfinished job has ended, or after the seconds."""
        self._park(job, state=False, seconds=seconds, read_states=_have_ended)

    def _park(self, job: Job, *, state: Hashable, seconds: float, read_states: ReadStates) -> None:
        if seconds and not job.is_terminal and length_of(self.request) <= MAX_WAITING_BYTES:
            meta, owner = self.request.META, self.account.pk
            park(meta, owner=owner, subject=job.pk, state=state, seconds=seconds, read_states=read_states)


def _have_ended(job_ids: Collection[int]) -> dict[int, bool]:
    """Return whether jobs have ended. One query."""
    return {job.pk: job.is_terminal for job in Job.objects.filter(pk__in=job_ids).only("status")}


def require_submit(caller: Caller) -> None:
    """Raise InsufficientScope or ReadOnlyKey unless the key may submit and cancel jobs."""
    require_scope(caller.key, Scope.SUBMIT)
