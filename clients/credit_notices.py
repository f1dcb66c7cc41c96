"""Low-credit notices: the threshold below which an account's owners are notified.

`webhooks/low_credits.py` compares the threshold with the balance and sends the notices.
"""

from django.db import transaction

from billing import ledger
from billing.models import Account
from clients import audit
from clients.audit import Action, Actor
from clients.models import CreditsNotice


def threshold_of(account: Account) -> int | None:
    """Return the number of credits below which owners get a notice, or None if it is off."""
    return CreditsNotice.objects.filter(pk=account.pk).values_list("threshold", flat=True).first()


@transaction.atomic
def set_threshold(account: Account, threshold: int | None, *, by: Actor) -> bool:
    """Set the number of credits below which owners get a notice; None turns it off.

    Return whether it changed. If the balance is already below it, the next drop causes the next notice.
    """
    Account.objects.select_for_update(no_key=True).get(pk=account.pk)
    old = threshold_of(account)
    if threshold == old:
        return False
    if threshold is None:
        CreditsNotice.objects.filter(pk=account.pk).delete()
    else:
        state = {
            "threshold": threshold,
            "is_low": ledger.available(account) < threshold,
            "fell_at": None,
            "tell_owners_at": None,
        }
        CreditsNotice.objects.update_or_create(account=account, defaults=state)
    audit.record(account.pk, Action.CREDITS_NOTICE_CHANGED, by=by, old=_in_words(old), new=_in_words(threshold))
    return True


def _in_words(threshold: int | None) -> str:
    return "off" if threshold is None else f"{threshold:,} credits"
