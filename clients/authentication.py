"""Authentication of API requests by their API key."""

from dataclasses import dataclass

from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request

from billing.models import Account, Plan
from clients import keys
from clients.models import ApiKey, Client
from simservice.api.errors import ExpiredToken, InvalidToken, MissingToken, ReadOnlyKey, RevokedToken
from simservice.telemetry.logs import add_log_ids


@dataclass(frozen=True)
class Caller:
    """The authenticated caller of a request; replaces Django's user."""

    key: ApiKey

    @property
    def client(self) -> Client:
        return self.key.client

    @property
    def account(self) -> Account:
        return self.key.client.account

    @property
    def plan(self) -> Plan:
        return self.account.plan

    @property
    def is_authenticated(self) -> bool:
        return True


class KeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer <API key>` (`docs/reference/api.md#authentication`)."""

    def authenticate(self, request: Request) -> tuple[Caller, ApiKey]:
        """Return the caller. Raises MissingToken, InvalidToken, RevokedToken, ExpiredToken or ReadOnlyKey."""
        key = keys.find_key(self.secret_of(request))
        if key is None:
            raise InvalidToken
        if key.revoked_at is not None:
            raise RevokedToken
        if key.expires_at is not None and key.expires_at <= timezone.now():
            raise ExpiredToken
        if key.is_read_only and request.method not in SAFE_METHODS:
            raise ReadOnlyKey
        keys.record_use(key)
        add_log_ids(account_id=key.client.account_id)
        return Caller(key), key

    def secret_of(self, request: Request) -> str:
        """Return the well-formed key of a request. Raises MissingToken or InvalidToken."""
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not secret.strip():
            raise MissingToken
        return well_formed(secret.strip())

    def authenticate_header(self, request: Request) -> str:  # noqa: ARG002
        return "Bearer"


def well_formed(secret: str) -> str:
    """Return a key. Raises InvalidToken if its form is wrong."""
    if not keys.is_well_formed(secret):
        raise InvalidToken
    return secret
