"""Periodic maintenance: undeliverable and old events, old secrets, and mail about disabled webhooks."""

from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from clients import members
from simservice.web import mail
from webhooks import labels
from webhooks.models import Delivery, Endpoint, Event
from webhooks.retries import DISABLED_AFTER

BATCH = 1_000
FAILED_AT_ONCE = 500
# Wait this long before retrying a failed notice.
MAIL_RETRY_AFTER = timedelta(minutes=10)
SUBJECT = "A webhook of {account} was disabled"
TEXT = """The webhook of client “{client}” in your account {account} was disabled because every delivery to
it failed for {days} days:

    {url}

{last}Waiting events were marked as failed. When the receiver works again, enable the webhook in the
dashboard, copy the new signing secret to the receiver, and resend the failed events.
"""


def fail_undeliverable() -> int:
    """Fail a batch of waiting events whose client has no enabled endpoint; return their number."""
    with transaction.atomic():
        enabled = Endpoint.objects.filter(disabled_at=None).values("client_id")
        waiting = Event.objects.filter(state=Event.State.WAITING).exclude(client__in=enabled)
        events = [event.pk for event in waiting.select_for_update(no_key=True, skip_locked=True)[:FAILED_AT_ONCE]]
        return Event.objects.filter(pk__in=events).update(
            state=Event.State.FAILED, failure=Event.Failure.DISABLED, next_attempt_at=None, ended_at=Now()
        )


def delete_old_events() -> int:
    """Delete a batch of ended events past the retention period, with their deliveries; return their number."""
    past = Now() - timedelta(days=settings.RETENTION_DAYS)
    ended = Event.objects.filter(state__in=[Event.State.DELIVERED, Event.State.FAILED], created_at__lt=past)
    with transaction.atomic():
        # Locked, so that none of them is resent meanwhile.
        old = [event.pk for event in ended.order_by("created_at").select_for_update(skip_locked=True)[:BATCH]]
        Event.objects.filter(pk__in=old).delete()
    return len(old)


def delete_old_secrets() -> int:
    """Delete the old secrets whose overlap has ended; return their number."""
    expired = Endpoint.objects.filter(old_secret_until__lt=Now())
    # One at a time, because several endpoints may only be locked in order.
    return sum(
        expired.filter(pk=endpoint).update(old_secret="", old_secret_until=None)
        for endpoint in list(expired.values_list("pk", flat=True)[:BATCH])
    )


def notify_owners() -> int:
    """Mail the owners whose endpoint was disabled for failing; return the number of endpoints.

    A mail that fails is sent later. Of two workers that run this at once, only one sends it.
    """
    waiting = Endpoint.objects.filter(tell_owners_at__lte=Now()).select_related("client__account")
    return sum(notify_owners_of(endpoint) for endpoint in waiting.order_by("tell_owners_at")[:BATCH])


def notify_owners_of(endpoint: Endpoint) -> bool:
    """Mail the owners of one endpoint; return False if another worker does, or if it was enabled meanwhile."""
    unclaimed = Endpoint.objects.filter(pk=endpoint.pk, tell_owners_at=endpoint.tell_owners_at)
    if not unclaimed.update(tell_owners_at=Now() + MAIL_RETRY_AFTER):
        return False
    account = endpoint.client.account
    last = last_failure(endpoint)
    text = TEXT.format(
        client=endpoint.client.name,
        account=account,
        days=DISABLED_AFTER.days,
        url=endpoint.url,
        last=f"{last}\n\n" if last else "",
    )
    mail.send_text(SUBJECT.format(account=account), text, to=members.owner_addresses(account))
    Endpoint.objects.filter(pk=endpoint.pk, disabled_at=endpoint.disabled_at).update(tell_owners_at=None)
    return True


def last_failure(endpoint: Endpoint) -> str:
    """Return the last failed attempt of an endpoint in a few sentences, or an empty string if there is none."""
    failed = Delivery.objects.filter(
        event__client=endpoint.client_id, outcome__in=[Delivery.Outcome.FAILED, Delivery.Outcome.REJECTED]
    )
    last = failed.defer("excerpt").order_by("-pk").first()
    if last is None:
        return ""
    what = labels.problem(last) or f"The response had status {last.status}"
    sentences = [f"{what}.", last.detail, labels.delivery_advice(last)]
    ended = (text if text.endswith((".", "…")) else f"{text}." for text in sentences if text)
    return f"Last attempt: {' '.join(ended)}"
