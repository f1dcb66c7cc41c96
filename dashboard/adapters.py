"""Adapters for django-allauth: who can sign up, what a new user gets, and how second factors are stored."""

import logging
from collections.abc import Iterator
from functools import partial
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.core.internal import ratelimit
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from cryptography.fernet import InvalidToken
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.http import HttpRequest
from django.shortcuts import redirect
from django.urls import reverse

from clients import accounts
from dashboard import invited, mails
from simservice import encryption
from simservice.api.addresses import base_url, client_address
from simservice.api.errors import SecretStoreUnavailable
from simservice.encryption import Purpose, Sealed
from simservice.web.error_pages import error_answer

logger = logging.getLogger(__name__)

UNKNOWN_ADDRESS = "::"
UNREADABLE_FACTOR = "Your second factor cannot be checked at the moment. Try again later or contact the operator."


class PeopleAdapter(DefaultAccountAdapter):
    """Accounts of people, and the mail they get."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Return whether sign-up is open: if the deployment allows it, and always with an invitation."""
        return settings.ALLOW_SIGNUP or invited.to(request) is not None

    def save_user(self, request: HttpRequest, user: User, form: Any, commit: bool = True) -> User:  # noqa: FBT001, FBT002
        """Store a new user, who owns a new account unless an invitation waits to be accepted.

        A form that is sent twice at once makes one user; the second sender is asked to log in.
        """
        with transaction.atomic():
            one_at_a_time()
            if User.objects.filter(email__iexact=form.cleaned_data["email"]).exists():
                messages.info(request, "A user with this address already exists. Log in instead.")
                raise ImmediateHttpResponse(redirect("account_login"))
            saved: User = super().save_user(request, user, form, commit)
            if invited.to(request) is None:
                accounts.open_own_account(saved)
        return saved

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Send a mail. If it cannot be sent, log that; what it reports stays done."""
        try:
            super().send_mail(template_prefix, email, context)
        except mails.FAILURES:
            logger.exception("a mail (%s) could not be sent", template_prefix)

    def should_send_confirmation_mail(self, request: HttpRequest, email_address: Any, signup: bool) -> bool:  # noqa: ARG002, FBT001
        """Return whether to verify an address: only if mail can be sent."""
        return mails.are_sent()

    def get_email_confirmation_url(self, request: HttpRequest, emailconfirmation: Any) -> str:
        """Return the address that a mail leads to."""
        return base_url(request) + reverse("account_confirm_email", args=[emailconfirmation.key])

    def get_client_ip(self, request: HttpRequest) -> str:
        """Return the address that attempts are counted by; all unknown addresses count as one."""
        return client_address(request) or UNKNOWN_ADDRESS

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        """Return the key by which failed logins are counted: login and address together.

        If only the login counted, a stranger's wrong guesses would lock out its owner.
        """
        login = credentials.get("email") or credentials.get("username") or ""
        return f"{login.lower()}:{ratelimit.get_ip(request)}"


class SecondFactorAdapter(DefaultMFAAdapter):
    """Second factors: their secrets are encrypted in the database."""

    def encrypt(self, text: str) -> str:
        """Return what the database keeps of a secret."""
        return encryption.seal(text, purpose=Purpose.SECOND_FACTORS)

    def decrypt(self, encrypted_text: str) -> str:
        """Decrypt a secret; if no key decrypts it, end the request with a page that says so."""
        try:
            return encryption.unseal(encrypted_text, purpose=Purpose.SECOND_FACTORS)
        except InvalidToken:
            logger.error("a second factor cannot be decrypted: its key is not in SECRET_KEY_FALLBACKS")
            error = SecretStoreUnavailable({"reason": "unknown_key"}, message=UNREADABLE_FACTOR)
            raise ImmediateHttpResponse(error_answer(self.request, error)) from None


# Where allauth stores the secret of each kind
SECRET_OF = {Authenticator.Type.TOTP: "secret", Authenticator.Type.RECOVERY_CODES: "seed"}


def sealed_factors() -> Iterator[Sealed]:
    """Yield the encrypted secret of every second factor."""
    for kind, name in SECRET_OF.items():
        for pk, data in encryption.column_of(Authenticator.objects.filter(type=kind), "data"):
            replace = partial(swap_factor, pk, data, name)
            yield Sealed(name=f"second factor {pk}", text=data[name], replace=replace)


def swap_factor(pk: int, old: dict[str, Any], name: str, new: str) -> bool:
    """Replace a second factor's secret. Return False if its data has changed, for example by a used code."""
    return bool(Authenticator.objects.filter(pk=pk, data=old).update(data={**old, name: new}))


def one_at_a_time() -> None:
    """Let users be made one after the other until the transaction ends: names and addresses are compared first."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('sign-up', 0))")
