"""Low-credit notices: email to an account's owners, and events for webhooks that have them turned on.

A task compares balances with the owners' thresholds (`clients/credit_notices.py`), so billing a job needs no extra
statement. A drop is recorded once, in one transaction with its events. The email is sent after the commit. None is
lost; one is repeated if its worker dies between sending it and recording that.
"""

from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from billing import ledger
from clients import members
from clients.models import CreditsNotice
from simservice.web import mail
from webhooks import events
from webhooks.maintenance import MAIL_RETRY_AFTER
from webhooks.models import LOW_CREDITS, Endpoint

BATCH = 1_000
# The minimum between two notices, because each reservation that comes and goes could cause one
SHORTEST_INTERVAL = timedelta(hours=1)
SUBJECT = "{account} is low on credits"
TEXT = """Your account {account} has {available:,} credits left, fewer than your threshold of {threshold:,}.
Credits reserved for jobs are not counted.

You will get this notice again if the balance rises above the threshold and then drops below it.
Owners can change the threshold or turn the notice off in the dashboard, under Credits.
"""


def compare_all() -> int:
    """Compare all balances with their thresholds; return how many dropped below.

    Two queries for each batch, and more only for accounts that crossed their threshold.
    """
    fallen, last = 0, 0
    notices = CreditsNotice.objects.filter(account__suspended_at=None).order_by("pk")
    while batch := list(notices.filter(pk__gt=last)[:BATCH]):
        last = batch[-1].pk
        available = ledger.available_by_id([notice.pk for notice in batch])
        crossed = [notice.pk for notice in batch if (available[notice.pk] < notice.threshold) != notice.is_low]
        fallen += sum(compare(account_id) for account_id in crossed)
    return fallen


@transaction.atomic
def compare(account_id: int) -> bool:
    """Compare an account's balance with its threshold; return whether a drop was recorded."""
    rows = CreditsNotice.objects.filter(pk=account_id)
    notice = rows.select_for_update(no_key=True).first()
    if notice is None:
        return False
    # Read after the lock, because another worker may have compared them in the meantime.
    available = ledger.available_by_id([account_id])[account_id]
    is_low = available < notice.threshold
    if not is_low:
        rows.filter(is_low=True).update(is_low=False, tell_owners_at=None)
        return False
    due = rows.filter(Q(fell_at=None) | Q(fell_at__lte=Now() - SHORTEST_INTERVAL), is_low=False)
    if not due.update(is_low=True, fell_at=Now(), tell_owners_at=Now()):
        return False
    payload = {"available": available, "threshold": notice.threshold}
    wanted = Endpoint.objects.filter(client__account=account_id, disabled_at=None, reports_low_credits=True)
    for endpoint in wanted.order_by("pk"):
        events.record(endpoint.pk, job_id=None, payload=payload, kind=LOW_CREDITS)
    return True


def notify_owners() -> int:
    """Email the owners of accounts whose credits dropped; return the number of accounts.

    An email that fails is sent later. If two workers run this at once, only one sends it.
    """
    waiting = CreditsNotice.objects.filter(tell_owners_at__lte=Now()).select_related("account")
    return sum(notify_owners_of(notice) for notice in waiting.order_by("tell_owners_at")[:BATCH])


def notify_owners_of(notice: CreditsNotice) -> bool:
    """Email the owners of one account; return False if another worker does, or if the balance has risen since."""
    unclaimed = CreditsNotice.objects.filter(pk=notice.pk, tell_owners_at=notice.tell_owners_at)
    if not unclaimed.update(tell_owners_at=Now() + MAIL_RETRY_AFTER):
        return False
    account = notice.account
    text = TEXT.format(account=account, available=ledger.available(account), threshold=notice.threshold)
    mail.send_text(SUBJECT.format(account=account), text, to=members.owner_addresses(account))
    CreditsNotice.objects.filter(pk=notice.pk, fell_at=notice.fell_at).update(tell_owners_at=None)
    return True
