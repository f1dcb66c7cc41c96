"""What all forms need, and the forms of logging in, in our words."""

from typing import Any

from allauth.account.forms import LoginForm, SignupForm
from django.http import HttpRequest, QueryDict


def sent(request: HttpRequest) -> QueryDict | None:
    """Return what a form was sent with, also when that is nothing; None when the form is only to be shown."""
    return request.POST if request.method == "POST" else None


class EnterForm(LoginForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["login"].label = "E-mail address or user name"
        self.fields["login"].widget.attrs["autocomplete"] = "username"
        self.fields["remember"].label = "Keep me logged in on this device"


class JoinForm(SignupForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["email"].label = "E-mail address"
