"""Forms for login, sign-up, passwords and email addresses, and a helper for all forms."""

from collections.abc import Mapping
from typing import Any

from allauth.account import forms as allauth_forms
from allauth.account.adapter import get_adapter
from allauth.mfa.base import forms as mfa_forms
from django.conf import settings
from django.contrib.auth.models import User
from django.forms import Field
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect

from dashboard.login import password_reset, sign_up
from simservice.web import mail


def form_data(request: HttpRequest) -> QueryDict | None:
    """Return the submitted form data, which may be empty, or None if the form was not submitted."""
    return request.POST if request.method == "POST" else None


PASSWORD_RULE = f"At least {settings.MIN_PASSWORD_LENGTH} characters, not a common password."


class Labelled:
    """A form of django-allauth with our labels, and with the rule for new passwords in one line."""

    labels: Mapping[str, str] = {}
    fields: dict[str, Field]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, label in self.labels.items():
            self.fields[name].label = label
        if new_password := self.fields.get("password1"):
            new_password.help_text = PASSWORD_RULE


class Focused(Labelled):
    """The only form of its page: the browser focuses the first field that can be filled in."""

    def focus(self) -> None:
        """Focus the first field. Called when all fields are final."""
        first = next(field for field in self.fields.values() if not field.disabled)
        first.widget.attrs["autofocus"] = True


class LoginForm(Focused, allauth_forms.LoginForm):
    labels = {"login": "Email address or username", "remember": "Keep me logged in on this device"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["login"].widget.attrs["autocomplete"] = "username"
        self.focus()


class SignUpForm(Focused, allauth_forms.SignupForm):
    """Sign-up in two steps: the address, then the password on the page of the mailed link (`sign_up.py`).

    If mail is disabled, sign-up is a single step that rejects known addresses.
    """

    labels = {"email": "Email address"}

    def __init__(self, *args: Any, verified_email: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.verified_email = verified_email
        self.asks_for_link = verified_email is None and mail.is_enabled()
        if self.asks_for_link:
            del self.fields["password1"]
        if verified_email is not None:
            self.initial["email"], self.fields["email"].disabled = verified_email, True
        self.focus()

    def validate_unique_email(self, value: str) -> str:
        """Return the address. Raises ValidationError if it is known, except in the first of two steps."""
        return value if self.asks_for_link else str(super().validate_unique_email(value))

    def try_save(self, request: HttpRequest) -> tuple[User | None, HttpResponse | None]:
        """Create the user, or request the link and return a redirect."""
        if self.asks_for_link:
            sign_up.request_link(request, self.cleaned_data["email"])
            return None, redirect("account_email_verification_sent")
        if self.verified_email is not None:
            get_adapter(request).stash_verified_email(request, self.verified_email)
        saved: tuple[User | None, HttpResponse | None] = super().try_save(request)
        return saved


NEW_PASSWORD = {"password1": "New password", "password2": "Repeat new password"}


class ChangePasswordForm(Labelled, allauth_forms.ChangePasswordForm):
    labels = {"oldpassword": "Current password", **NEW_PASSWORD}


class FocusedAtOnce(Focused):
    """A form whose fields are final from the start."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.focus()


class NewPasswordForm(FocusedAtOnce, allauth_forms.ResetPasswordKeyForm):
    """Choose a new password on the page of a mailed link."""

    labels = NEW_PASSWORD


class PasswordAgainForm(FocusedAtOnce, allauth_forms.ReauthenticateForm):
    """Confirm one's identity with the password."""


class CodeForm(FocusedAtOnce, mfa_forms.AuthenticateForm):
    """Log in with a code, after the password."""


class CodeAgainForm(FocusedAtOnce, mfa_forms.ReauthenticateForm):
    """Confirm one's identity with a code."""


class ChangeEmailForm(Labelled, allauth_forms.AddEmailForm):
    labels = {"email": "Email address"}


class PasswordResetForm(FocusedAtOnce, allauth_forms.ResetPasswordForm):
    """Request a password reset. Only the owner of the address learns whether it is known (`password_reset.py`)."""

    labels = {"email": "Email address"}

    def clean_email(self) -> str:
        return str(self.cleaned_data["email"]).lower()

    def save(self, request: HttpRequest, **kwargs: Any) -> str:  # noqa: ARG002
        password_reset.request_link(request, self.cleaned_data["email"])
        return str(self.cleaned_data["email"])
