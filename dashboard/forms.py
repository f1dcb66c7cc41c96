"""Forms for login, sign-up, passwords and email addresses, and a helper for all forms."""

from typing import Any

from allauth.account import forms as allauth_forms
from allauth.account.adapter import get_adapter
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect

from dashboard.login import password_reset, sign_up
from simservice.web import mail


def form_data(request: HttpRequest) -> QueryDict | None:
    """Return the submitted form data, which may be empty, or None if the form was not submitted."""
    return request.POST if request.method == "POST" else None


class LoginForm(allauth_forms.LoginForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["login"].label = "Email address or username"
        self.fields["login"].widget.attrs["autocomplete"] = "username"
        self.fields["remember"].label = "Keep me logged in on this device"


class SignUpForm(allauth_forms.SignupForm):
    """Sign-up in two steps: the address, then the password on the page of the mailed link (`sign_up.py`).

    If mail is disabled, sign-up is a single step that rejects known addresses.
    """

    def __init__(self, *args: Any, verified_email: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.verified_email = verified_email
        self.asks_for_link = verified_email is None and mail.is_enabled()
        self.fields["email"].label = "Email address"
        if self.asks_for_link:
            del self.fields["password1"]
        if verified_email is not None:
            self.initial["email"], self.fields["email"].disabled = verified_email, True

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


class ChangePasswordForm(allauth_forms.ChangePasswordForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["oldpassword"].label = "Current password"
        self.fields["password1"].label = "New password"
        self.fields["password2"].label = "Repeat new password"


class NewPasswordForm(allauth_forms.ResetPasswordKeyForm):
    """Choose a new password on the page of a mailed link."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["password1"].label = "New password"
        self.fields["password2"].label = "Repeat new password"


class ChangeEmailForm(allauth_forms.AddEmailForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["email"].label = "Email address"


class PasswordResetForm(allauth_forms.ResetPasswordForm):
    """Request a password reset. Only the owner of the address learns whether it is known (`password_reset.py`)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["email"].label = "Email address"

    def clean_email(self) -> str:
        return str(self.cleaned_data["email"]).lower()

    def save(self, request: HttpRequest, **kwargs: Any) -> str:  # noqa: ARG002
        password_reset.request_link(request, self.cleaned_data["email"])
        return str(self.cleaned_data["email"])
