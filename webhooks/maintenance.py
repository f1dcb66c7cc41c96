"""What is done now and then: old events go, old secrets go, owners are told of what was disabled."""

import logging
from datetime import timedelta

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.mail import send_mail
from django.db import transaction
from django.db.models.functions import Now

from clients.models import Membership
from webhooks.delivery import DISABLED_AFTER
from webhooks.models import Endpoint, Event

logger = logging.getLogger(__name__)

BATCH = 1_000
# When a mail that could not be sent, or whose sender died, is tried again.
MAIL_AGAIN_AFTER = timedelta(minutes=10)
SUBJECT = "A webhook of {account} was disabled"
TEXT = """The webhook of the client “{client}” of your account {account} was disabled, because every delivery to it
has failed for {days} days:

    {url}

Events that were still waiting are kept as failed. Once the receiver works again, enable the webhook in the
dashboard; that makes a new signing secret. Then the failed events can be sent again.
"""


def forget_events() -> int:
    """Remove a batch of ended events past their retention with their deliveries; return how many."""
    past = Now() - timedelta(days=settings.RETENTION_DAYS)
    ended = Event.objects.filter(state__in=[Event.State.DELIVERED, Event.State.FAILED], created_at__lt=past)
    with transaction.atomic():
        # Locked, so that none of them is sent again meanwhile.
        old = [event.pk for event in ended.order_by("created_at").select_for_update(skip_locked=True)[:BATCH]]
        Event.objects.filter(pk__in=old).delete()
    return len(old)


def forget_secrets() -> int:
    """Remove the secrets whose overlap is over; return how many."""
    over = Endpoint.objects.filter(old_secret_until__lt=Now())
    # One at a time: whoever holds several endpoints must have locked them in order.
    return sum(
        over.filter(pk=endpoint).update(old_secret="", old_secret_until=None)
        for endpoint in list(over.values_list("pk", flat=True)[:BATCH])
    )


def tell_owners() -> int:
    """Write to the owners whose endpoint was disabled for failing; return how many endpoints that were.

    One that cannot be written now is written later, and of two who do this at once only one writes.
    """
    untold = Endpoint.objects.filter(tell_owners_at__lte=Now()).select_related("client__account")
    return sum(tell_owners_of(endpoint) for endpoint in untold.order_by("tell_owners_at")[:BATCH])


def tell_owners_of(endpoint: Endpoint) -> bool:
    """Write to the owners of one endpoint; False when somebody else does."""
    mine = Endpoint.objects.filter(pk=endpoint.pk, tell_owners_at=endpoint.tell_owners_at)
    if not mine.update(tell_owners_at=Now() + MAIL_AGAIN_AFTER):
        return False
    account = endpoint.client.account
    owners = get_user_model().objects.filter(
        memberships__account=account, memberships__role=Membership.Role.OWNER, is_active=True
    )
    text = TEXT.format(client=endpoint.client.name, account=account, days=DISABLED_AFTER.days, url=endpoint.url)
    recipients = [user.email for user in owners if user.email]
    send_mail(SUBJECT.format(account=account), text, None, recipients)
    Endpoint.objects.filter(pk=endpoint.pk, disabled_at=endpoint.disabled_at).update(tell_owners_at=None)
    return True
