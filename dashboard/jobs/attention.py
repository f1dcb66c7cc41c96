"""Notices for members of an account: low credits, expiring grants, failing webhooks, no simulators."""

from collections.abc import Iterable, Iterator
from datetime import UTC, timedelta
from itertools import islice
from typing import NamedTuple

from django.urls import reverse
from django.utils import timezone
from django.utils.text import get_text_list

from billing.ledger import Balances
from billing.models import Account, GrantReason
from billing.pace import Pace
from jobs.enums import Priority
from jobs.queue.forecast import QueueSnapshot
from webhooks.models import Endpoint

# Credits and grants that end within this many days need attention.
SOON_DAYS = 7
LISTED_WEBHOOKS = 5
NO_BUILD = "No jobs can run until the operator registers a build."
NO_SIMULATORS = "No simulators are available. Jobs wait until one is."


class Notice(NamedTuple):
    """A sentence, and the page and the words of its link, empty without one."""

    text: str
    url: str = ""
    link: str = ""


def of_credits(account: Account, balances: Balances, *, pace: Pace | None) -> Iterator[Notice]:
    """Yield what ends soon. A monthly allowance is not listed, because the next one follows."""
    url = reverse("credits", args=[account.name])
    now = timezone.now()
    today = now.astimezone(UTC).date()
    if pace and pace.last_day and pace.last_day - today < timedelta(days=SOON_DAYS):
        lasts = "only for today" if pace.last_day <= today else f"until {pace.last_day:%B} {pace.last_day.day}"
        yield Notice(f"Credits last {lasts} at the pace of the last {pace.days} days.", url, "View credits")
    for grant in balances.grants:
        at = grant.expires_at
        if at and grant.reason != GrantReason.ALLOWANCE and at - now < timedelta(days=SOON_DAYS):
            text = f"{grant.remaining:,} credits of “{grant.title}” expire on {at:%B} {at.day}."
            yield Notice(text, url, "View credits")


def of_webhooks(account: Account, failing: Iterable[Endpoint]) -> Iterator[Notice]:
    """Yield the enabled webhooks whose last delivery failed."""
    for endpoint in islice(failing, LISTED_WEBHOOKS):
        since = f"since {endpoint.failing_since:%Y-%m-%d %H:%M} UTC"
        url = reverse("webhook", args=[account.name, endpoint.client_id])
        yield Notice(
            f"Deliveries to the webhook of {endpoint.client.name} have failed {since}.", url, "View webhook"
        )


def of_service(*, has_builds: bool, snapshot: QueueSnapshot | None) -> Iterator[Notice]:
    """Yield why jobs cannot run now."""
    if not has_builds:
        yield Notice(NO_BUILD)
    elif snapshot and not snapshot.slots:
        yield Notice(NO_SIMULATORS)
    if snapshot and snapshot.paused:
        lanes = get_text_list([f"{Priority(lane).label.lower()}-priority" for lane in snapshot.paused], "and")
        yield Notice(f"The operator has paused {lanes} jobs. They start after the pause has ended.")
