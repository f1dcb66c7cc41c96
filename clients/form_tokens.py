"""One-time tokens in forms: a form that is sent several times is processed once."""

from datetime import timedelta

from django.core import signing
from django.db import connection

from clients.errors import FormAlreadySent, InvalidFormToken
from clients.models import SentForm
from simservice.ids import new_token

LIFETIME = timedelta(days=1)
DELETED_AT_ONCE = 100
# Rows that another transaction is deleting are skipped, so that no form waits for another one.
DELETE_EXPIRED = """
    DELETE FROM clients_sentform WHERE token = ANY (ARRAY(
        SELECT token FROM clients_sentform WHERE sent_at < statement_timestamp() - make_interval(secs => %s)
        ORDER BY sent_at LIMIT %s FOR UPDATE SKIP LOCKED
    ))
"""


def issue(user_id: int, purpose: str) -> str:
    """Return a new token for one user and one purpose."""
    return _signer().sign_object([new_token(), user_id, purpose])


def require_unused(token: str, user_id: int, purpose: str) -> None:
    """Raise FormAlreadySent if a token is used, or InvalidFormToken. The token stays unused."""
    if SentForm.objects.filter(pk=_stored_part(token, user_id, purpose)).exists():
        raise FormAlreadySent


def use(token: str, user_id: int, purpose: str) -> None:
    """Mark a token as used. Raises FormAlreadySent or InvalidFormToken.

    Call this in the transaction that processes the form: a second request with the same token waits for its end,
    and a rollback makes the token usable again. Also deletes some expired tokens.
    """
    stored = _stored_part(token, user_id, purpose)
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO clients_sentform (token) VALUES (%s) ON CONFLICT DO NOTHING", [stored])
        if not cursor.rowcount:
            raise FormAlreadySent
        cursor.execute(DELETE_EXPIRED, [2 * LIFETIME.total_seconds(), DELETED_AT_ONCE])


def _stored_part(token: str, user_id: int, purpose: str) -> str:
    """Return the part of a token that is stored once it is used. Raises InvalidFormToken."""
    try:
        stored, *issued_for = _signer().unsign_object(token, max_age=LIFETIME)
    except signing.BadSignature:
        raise InvalidFormToken from None
    if issued_for != [user_id, purpose]:
        raise InvalidFormToken
    return str(stored)


def _signer() -> signing.TimestampSigner:
    """Return a signer that signs with `SECRET_KEY` and also accepts `SECRET_KEY_FALLBACKS`."""
    return signing.TimestampSigner(salt="form tokens")
