"""Authentication of API requests by their API key."""

from dataclasses import dataclass

from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from billing.models import Account, Plan
from clients import addresses, keys
from clients.models import ApiKey, Client
from simservice.api.addresses import client_address
from simservice.api.errors import (
    AddressNotAllowed,
    ExpiredToken,
    InsufficientScope,
    InvalidToken,
    MissingToken,
    ReadOnlyKey,
    RevokedToken,
)
from simservice.api.operations import operation_of
from simservice.api.scopes import Scope
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
        """Return the caller. Raises the errors of `secret_of`, `require_usable` and `require_scope`.

        A request that has waited is authenticated again before it is answered.
        """
        key = keys.find_key(self.secret_of(request))
        if key is None:
            raise InvalidToken
        require_usable(key, address=client_address(request))
        if (needed := _scope_for(request)) is not None:
            require_scope(key, needed)
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


def require_usable(key: ApiKey, *, address: str | None) -> None:
    """Raise RevokedToken, ExpiredToken or AddressNotAllowed unless a key is accepted from an address."""
    if key.revoked_at is not None:
        raise RevokedToken
    if key.expires_at is not None and key.expires_at <= timezone.now():
        raise ExpiredToken
    if key.addresses and not addresses.contains(key.addresses, address):
        raise AddressNotAllowed


def require_scope(key: ApiKey, needed: Scope) -> None:
    """Raise InsufficientScope or ReadOnlyKey unless a key has a scope."""
    if not Scope(key.scope).includes(needed):
        raise InsufficientScope({"required": str(needed), "scope": str(key.scope)})
    if key.is_read_only and needed != Scope.READ:
        raise ReadOnlyKey


def _scope_for(request: Request) -> Scope | None:
    """Return the scope that a request needs, or None if the view does not support its method."""
    method = str(request.method)
    operation = operation_of(getattr(request.parser_context["view"], method.lower(), None))
    return operation.required_scope(method) if operation else None


def well_formed(secret: str) -> str:
    """Return a key. Raises InvalidToken if it is malformed."""
    if not keys.is_well_formed(secret):
        raise InvalidToken
    return secret
