"""Helpers for all forms, and the login and sign-up forms."""

from typing import Any

from allauth.account.adapter import get_adapter
from allauth.account.forms import LoginForm, ResetPasswordForm, SignupForm
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect

from dashboard import mails, password_reset, sign_up


def sent(request: HttpRequest) -> QueryDict | None:
    """Return what a form was sent with, also when that is nothing; None when the form is only to be shown."""
    return request.POST if request.method == "POST" else None


class EnterForm(LoginForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["login"].label = "Email address or user name"
        self.fields["login"].widget.attrs["autocomplete"] = "username"
        self.fields["remember"].label = "Keep me logged in on this device"


class JoinForm(SignupForm):
    """Sign-up in two steps: the address, then the password on the page of the mailed link (`sign_up.py`).

    Without mail, it is a single step that refuses known addresses.
    """

    def __init__(self, *args: Any, proven: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.proven = proven
        self.asks_for_link = proven is None and mails.are_sent()
        self.fields["email"].label = "Email address"
        if self.asks_for_link:
            del self.fields["password1"]
        if proven is not None:
            self.initial["email"], self.fields["email"].disabled = proven, True

    def validate_unique_email(self, value: str) -> str:
        """Return the address. Raises ValidationError for a known one, but not to a stranger."""
        return value if self.asks_for_link else str(super().validate_unique_email(value))

    def try_save(self, request: HttpRequest) -> tuple[User | None, HttpResponse | None]:
        """Create the user, or have the link mailed and say so."""
        if self.asks_for_link:
            sign_up.request_link(request, self.cleaned_data["email"])
            return None, redirect("account_email_verification_sent")
        if self.proven is not None:
            get_adapter(request).stash_verified_email(request, self.proven)
        made: tuple[User | None, HttpResponse | None] = super().try_save(request)
        return made


class ResetForm(ResetPasswordForm):
    """Asks for an address. Only its owner learns, by mail, whether it is known (`password_reset.py`)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["email"].label = "Email address"

    def clean_email(self) -> str:
        return str(self.cleaned_data["email"]).lower()

    def save(self, request: HttpRequest, **kwargs: Any) -> str:  # noqa: ARG002
        password_reset.request_link(request, self.cleaned_data["email"])
        return str(self.cleaned_data["email"])
