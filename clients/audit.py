"""The audit log of an account: who changed its keys, members, webhooks, plan, credits or jobs, and from where."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest
from rest_framework.request import Request

from billing.models import Account
from clients.models import ApiKey, AuditEvent
from simservice.api.addresses import client_address

Action = AuditEvent.Action
MAX_LABEL = 300


@dataclass(frozen=True, kw_only=True)
class Actor:
    """Who changes an account, as the log names them, and from which address."""

    label: str
    user: User | None = None
    key_id: int | None = None
    address: str | None = None


# The service itself
SYSTEM = Actor(label="System")
# Somebody with a shell on the server
COMMAND_LINE = Actor(label="Operator (command line)")


def name_of(user: User) -> str:
    """Return a person's email address, or user name if they have none."""
    return user.email or user.get_username()


def member(user: User, request: HttpRequest) -> Actor:
    """Return a user who acts in an account of their own."""
    return Actor(label=name_of(user), user=user, address=client_address(request))


def operator(request: HttpRequest) -> Actor:
    """Return the operator who acts in the admin."""
    user = cast(User, request.user)
    return Actor(label=f"Operator {name_of(user)}", user=user, address=client_address(request))


def api_key(key: ApiKey, request: HttpRequest | Request) -> Actor:
    """Return the API key that a request carries."""
    return Actor(label=f"API key {key}", key_id=key.pk, address=client_address(request))


def record(
    account_id: int,
    action: Action,
    *,
    by: Actor,
    target_id: int | None = None,
    target: object = "",
    **details: str | int | None,
) -> None:
    """Write an event; `details` never contain a secret. Call in the transaction of the change. One query."""
    AuditEvent.objects.create(
        account_id=account_id,
        action=action,
        user_id=by.user.pk if by.user else None,
        actor=by.label[:MAX_LABEL],
        address=by.address,
        target_id=target_id,
        target=str(target)[:MAX_LABEL],
        details=details,
    )


def events_of(
    account: Account, *, actions: Iterable[Action] = (), user_id: int | None = None
) -> QuerySet[AuditEvent]:
    """Return an account's events, optionally only those of some actions or of one user."""
    found = AuditEvent.objects.filter(account=account)
    if actions:
        found = found.filter(action__in=list(actions))
    return found if user_id is None else found.filter(user_id=user_id)
