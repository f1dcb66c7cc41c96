"""Forms that do their work once, however often they are sent: each carries a token, used up with the work."""

from datetime import timedelta

from django.core import signing
from django.db import connection
from django.utils import timezone

from clients.models import SentForm
from simservice.ids import new_token

LASTS = timedelta(days=1)
FORGOTTEN_AT_ONCE = 100


class SentBefore(Exception):
    """The same form did its work already."""


class TooOld(Exception):
    """The form is not one that was given out within the last day to this user for this purpose."""


def signer() -> signing.TimestampSigner:
    """Return a signer that signs with `SECRET_KEY` and also accepts `SECRET_KEY_FALLBACKS`."""
    return signing.TimestampSigner(salt="clients.once")


def new_form(user_id: int, purpose: str) -> str:
    """Return the token of a new form, for one user and one purpose."""
    return signer().sign_object([new_token(), user_id, purpose])


def require_unused(form: str, user_id: int, purpose: str) -> None:
    """Raise SentBefore for a form that did its work already, or TooOld. One query; nothing is used up."""
    if SentForm.objects.filter(pk=read(form, user_id, purpose)).exists():
        raise SentBefore


def use(form: str, user_id: int, purpose: str) -> None:
    """Use up a form's token. Raises SentBefore, or TooOld.

    Call in the transaction that does the form's work: two that are sent at once wait for each other here, and when
    the work fails the form can be sent again. Also forgets some tokens that are too old to be accepted anyway.
    """
    token = read(form, user_id, purpose)
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO clients_sentform (token) VALUES (%s) ON CONFLICT DO NOTHING", [token])
        if not cursor.rowcount:
            raise SentBefore
    old = SentForm.objects.filter(sent_at__lt=timezone.now() - 2 * LASTS).order_by("sent_at")
    SentForm.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:FORGOTTEN_AT_ONCE])).delete()


def read(form: str, user_id: int, purpose: str) -> str:
    """Return the part of a form's token that is kept. Raises TooOld."""
    try:
        token, *meant = signer().unsign_object(form, max_age=LASTS)
    except signing.BadSignature:
        raise TooOld from None
    if meant != [user_id, purpose]:
        raise TooOld
    return str(token)
