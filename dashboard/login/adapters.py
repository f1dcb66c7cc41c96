"""Adapters for django-allauth: sign-up, mail, rate limits and the storage of second factors."""

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
from dashboard.login import pending_invitation
from simservice import encryption
from simservice.api.addresses import base_url, client_address
from simservice.api.errors import SecretStoreUnavailable
from simservice.encryption import EncryptedValue, Purpose
from simservice.web import mail
from simservice.web.error_pages import render_error

logger = logging.getLogger(__name__)

UNKNOWN_ADDRESS = "::"
INCORRECT_LOGIN = "The email address, username or password is incorrect."
UNREADABLE_FACTOR = "Your code cannot be checked at the moment. Try again later or contact the operator."


class UserAdapter(DefaultAccountAdapter):
    """Sign-up of users, and the mail that django-allauth sends them."""

    error_messages = {
        **DefaultAccountAdapter.error_messages,
        "email_password_mismatch": INCORRECT_LOGIN,
        "username_password_mismatch": INCORRECT_LOGIN,
        "email_taken": "A user with this email address already exists.",
        "enter_current_password": "Incorrect password.",
        "rate_limited": "Too many attempts. Try again in a few minutes.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Return whether this visitor can sign up: if the deployment allows it, or with an invitation."""
        return settings.ALLOW_SIGNUP or pending_invitation.find(request) is not None

    def save_user(self, request: HttpRequest, user: User, form: Any, commit: bool = True) -> User:  # noqa: FBT001, FBT002
        """Save a new user, and open an account for them unless they have an invitation to accept.

        A form that is submitted twice creates one user; the second request redirects to the login page.
        """
        with transaction.atomic(), connection.cursor() as cursor:
            # Other sign-ups wait until this transaction ends, so that two cannot take one username or address.
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('sign-up', 0))")
            if User.objects.filter(email__iexact=form.cleaned_data["email"]).exists():
                messages.info(request, "A user with this email address already exists. Log in instead.")
                raise ImmediateHttpResponse(redirect("account_login"))
            saved: User = super().save_user(request, user, form, commit)
            if pending_invitation.find(request) is None:
                accounts.open_own_account(saved)
        return saved

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Send a mail. Log a failure without raising it, because the change that the mail reports was saved."""
        try:
            super().send_mail(template_prefix, email, context)
        except OSError:
            logger.exception("mail %s was not sent", template_prefix)

    def should_send_confirmation_mail(self, request: HttpRequest, email_address: Any, signup: bool) -> bool:  # noqa: ARG002, FBT001
        """Return whether to send a verification link."""
        return mail.is_enabled()

    def get_email_confirmation_url(self, request: HttpRequest, emailconfirmation: Any) -> str:
        """Return the URL of the page that verifies an address."""
        return base_url(request) + reverse("account_confirm_email", args=[emailconfirmation.key])

    def is_safe_url(self, url: str | None) -> bool:
        """Return whether a page can redirect to this address. One that cannot be parsed is not safe."""
        try:
            return bool(super().is_safe_url(url))
        except ValueError:
            return False

    def get_client_ip(self, request: HttpRequest) -> str:
        """Return the IP address that rate limits count by. All unknown addresses count as one."""
        return client_address(request) or UNKNOWN_ADDRESS

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        """Return the key that failed logins are counted by: the login together with the IP address.

        A count by login alone would let anyone lock a user out with wrong guesses.
        """
        login = credentials.get("email") or credentials.get("username") or ""
        return f"{login.lower()}:{ratelimit.get_ip(request)}"


class SecondFactorAdapter(DefaultMFAAdapter):
    """Encryption of second factors in the database."""

    def encrypt(self, text: str) -> str:
        """Encrypt a secret for the database."""
        return encryption.encrypt(text, purpose=Purpose.SECOND_FACTORS)

    def decrypt(self, encrypted_text: str) -> str:
        """Decrypt a secret. Raises ImmediateHttpResponse with an error page if no key decrypts it."""
        try:
            return encryption.decrypt(encrypted_text, purpose=Purpose.SECOND_FACTORS)
        except InvalidToken:
            logger.error("a second factor cannot be decrypted: its key is not in SECRET_KEY_FALLBACKS")
            error = SecretStoreUnavailable({"reason": "unknown_key"}, message=UNREADABLE_FACTOR)
            raise ImmediateHttpResponse(render_error(self.request, error)) from None


# Where django-allauth stores the secret of each type
SECRET_FIELDS = {Authenticator.Type.TOTP: "secret", Authenticator.Type.RECOVERY_CODES: "seed"}


def encrypted_factors() -> Iterator[EncryptedValue]:
    """Yield the encrypted secret of every second factor."""
    for kind, name in SECRET_FIELDS.items():
        for pk, data in encryption.values_by_pk(Authenticator.objects.filter(type=kind), "data"):
            replace = partial(_swap_factor, pk, data, name)
            yield EncryptedValue(name=f"second factor {pk}", text=data[name], replace=replace)


def _swap_factor(pk: int, old: dict[str, Any], name: str, new: str) -> bool:
    """Replace a second factor's secret. Return False if its data has changed, for example by a used code."""
    return bool(Authenticator.objects.filter(pk=pk, data=old).update(data={**old, name: new}))
