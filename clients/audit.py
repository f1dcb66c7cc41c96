"""Audit log of an account: changes to its keys, members, webhooks, plan, credits and jobs."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, cast

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.http import HttpRequest

from billing.models import Account
from clients.models import ApiKey, AuditEvent
from simservice.api.addresses import client_address

if TYPE_CHECKING:
    from rest_framework.request import Request  # workers do not load the API framework

Action = AuditEvent.Action
MAX_LABEL_CHARACTERS = 300


@dataclass(frozen=True, kw_only=True)
class Actor:
    """The user, API key or system that changes an account, and the address of the request."""

    label: str
    user: User | None = None
    key_id: int | None = None
    address: str | None = None


# The service itself.
SYSTEM = Actor(label="System")
# A management command.
COMMAND_LINE = Actor(label="Operator (command line)")


def name_of(user: User) -> str:
    """Return a user's email address, or the user name if there is none."""
    return user.email or user.get_username()


def member(user: User, request: HttpRequest) -> Actor:
    """Return a member of the account as an actor."""
    return Actor(label=name_of(user), user=user, address=client_address(request))


def operator(request: HttpRequest) -> Actor:
    """Return the logged-in user of the admin as an actor."""
    user = cast(User, request.user)
    return Actor(label=f"Operator {name_of(user)}", user=user, address=client_address(request))


def api_key(key: ApiKey, request: "HttpRequest | Request") -> Actor:
    """Return an API key as an actor."""
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
    """Write an event in the transaction of the change. `details` must not contain secrets."""
    record_all(action, [(account_id, target_id, target)], by=by, **details)


def record_all(
    action: Action, targets: Iterable[tuple[int, int | None, object]], *, by: Actor, **details: str | int | None
) -> None:
    """Write an event as `record` does for each account, target id and target."""
    events = [
        AuditEvent(
            account_id=account_id,
            action=action,
            user_id=by.user.pk if by.user else None,
            actor=by.label[:MAX_LABEL_CHARACTERS],
            address=by.address,
            target_id=target_id,
            target=str(target)[:MAX_LABEL_CHARACTERS],
            details=details,
        )
        for account_id, target_id, target in targets
    ]
    AuditEvent.objects.bulk_create(events, batch_size=1000)


def events_of(
    account: Account, *, actions: Iterable[Action] = (), user_id: int | None = None
) -> QuerySet[AuditEvent]:
    """Return an account's events, optionally only certain actions or those of one user."""
    events = AuditEvent.objects.filter(account=account)
    if actions:
        events = events.filter(action__in=list(actions))
    return events if user_id is None else events.filter(user_id=user_id)


def matching(
    events: QuerySet[AuditEvent], *, since: datetime | None, until: datetime | None, text: str
) -> QuerySet[AuditEvent]:
    """Return the events of a period whose actor, target or details contain a text."""
    if since:
        events = events.filter(at__gte=since)
    if until:
        events = events.filter(at__lt=until)
    if not text:
        return events
    # The text as it is encoded in JSON.
    encoded = json.dumps(text, ensure_ascii=False)[1:-1]
    found = events.annotate(encoded=Cast("details", TextField()))
    return found.filter(Q(actor__icontains=text) | Q(target__icontains=text) | Q(encoded__icontains=encoded))
