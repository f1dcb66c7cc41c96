"""Authentication backend that does the same work for known and unknown users."""

from typing import Any

from allauth.account.auth_backends import AuthenticationBackend
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef, Q
from django.http import HttpRequest


class LoginBackend(AuthenticationBackend):
    """Log in by username or email address, with one query and one password hash for every attempt.

    django-allauth's own backend hashes once more for a known email address, which reveals it by the response time.
    """

    def _authenticate(self, request: HttpRequest | None, **credentials: Any) -> User | None:  # noqa: ARG002
        login = credentials.get("username") or credentials.get("email") or ""
        user: User | None = self._check_password(find_user(login), credentials["password"])
        return user


def find_user(login: str) -> User | None:
    """Return the user with this username or email address, ignoring case, or None.

    A matching username takes precedence over an address, then a verified address, then the oldest user.
    """
    verified = EmailAddress.objects.filter(user=OuterRef("pk"), email__iexact=login, verified=True)
    users = User.objects.filter(Q(username__iexact=login) | Q(email__iexact=login))
    # The database ignores more than case: it matches a dotless i with an i, which is a different address.
    matching = [
        user
        for user in users.annotate(is_verified=Exists(verified)).order_by("-is_verified", "pk")
        if login.lower() in (user.username.lower(), user.email.lower())
    ]
    # An exact username first, then one whose case differs
    return min(
        matching,
        key=lambda user: (user.username != login, user.username.lower() != login.lower()),
        default=None,
    )


def users_with(email: str) -> list[User]:
    """Return the users with this email address, ignoring case.

    Only an operator can give several users one address. Unverified changes of address do not count.
    """
    users = User.objects.filter(email__iexact=email).order_by("pk")
    return [user for user in users if user.email.lower() == email.lower()]
