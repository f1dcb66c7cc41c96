"""The data of a user, as rows of an export. Passwords, secrets and session keys are left out."""

from collections.abc import Iterator

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User

from clients.models import ApiKey, AuditEvent, Invitation, Membership
from privacy.account_data import AUDIT_FIELDS
from privacy.archive import Section, rows_of

USER_FIELDS = "id username email first_name last_name date_joined last_login is_staff".split()
KEY_FIELDS = (
    "client__account__name client__name name last4 scope addresses created_at expires_at revoked_at last_used_at"
).split()


def sections(user: User) -> Iterator[Section]:
    """Yield the files of a user's export with their rows."""
    of = {"user": user}
    memberships = Membership.objects.filter(**of)
    yield "user", [{field: getattr(user, field) for field in USER_FIELDS}]
    yield "email_addresses", rows_of(EmailAddress.objects.filter(**of), "email", "verified", "primary")
    yield "second_factors", rows_of(Authenticator.objects.filter(**of), "type", "created_at", "last_used_at")
    yield "sessions", rows_of(UserSession.objects.filter(**of), "created_at", "last_seen_at", "ip", "user_agent")
    yield "memberships", rows_of(memberships, "account__name", "role")
    invitations = Invitation.objects.filter(accepted_by=user)
    yield "invitations", rows_of(invitations, "account__name", "email", "role", "created_at", "closed_at")
    yield "keys", rows_of(ApiKey.objects.filter(created_by=user), *KEY_FIELDS)
    # What the user did in the accounts of which they are a member
    done = (AuditEvent.objects.filter(account=each.account_id, user_id=user.pk) for each in memberships)
    yield "audit_log", (row for events in done for row in rows_of(events, "account_id", *AUDIT_FIELDS))
