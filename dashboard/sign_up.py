"""Sign-up with a mailed link, so that only the owner of an address learns whether it is known."""

from datetime import timedelta
from typing import Any, NamedTuple

from allauth.account.models import EmailAddress
from allauth.account.utils import get_next_redirect_url
from allauth.account.views import SignupView
from django.conf import settings
from django.contrib import messages
from django.core import signing
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode

from dashboard import backends, invited, mails
from simservice.api.addresses import base_url

SALT = "sign-up"
VALID_FOR = timedelta(days=3)


class Proof(NamedTuple):
    """What a link proves: its user can read the mail of an address, and may have an invitation."""

    email: str
    invitation: int | None


def request_link(request: HttpRequest, email: str) -> None:
    """Have a link mailed to an address. The request does the same for every address."""
    found = invited.to(request)
    mails.request(
        request,
        "dashboard.tasks.mail_sign_up_link",
        email=email,
        base=base_url(request),
        wanted=get_next_redirect_url(request) or "",
        invitation=found and found.pk,
    )


def mail_link(*, email: str, base: str, wanted: str, invitation: int | None) -> bool:
    """Mail the link to finish signing up, or tell the owner of the address that they have an account."""
    context: dict[str, Any] = {"base": base, "days": VALID_FOR.days}
    if backends.users_of(email):
        subject = f"You already have an account at {settings.SERVICE_BRAND}"
        return mails.send_seldom("mail/sign_up_known.txt", to=email, subject=subject, context=context)
    token = signing.dumps(Proof(email, invitation), salt=SALT)
    context["link"] = base + reverse("finish_sign_up", args=[token])
    if wanted:
        context["link"] += "?" + urlencode({"next": wanted})
    subject = f"Finish signing up at {settings.SERVICE_BRAND}"
    return mails.send_seldom("mail/sign_up.txt", to=email, subject=subject, context=context)


def read(token: str) -> Proof | None:
    """Return what a link proves; None if it has expired or is invalid."""
    try:
        return Proof(*signing.loads(token, salt=SALT, max_age=VALID_FOR))
    except signing.BadSignature:
        return None


class FinishView(SignupView):
    """The page of a link: it asks for a password and creates the user with a verified address."""

    def dispatch(self, request: HttpRequest, *args: Any, token: str, **kwargs: Any) -> HttpResponseBase:
        proof = read(token)
        if proof is None:
            return render(request, "account/sign_up_expired.html", status=404)
        if backends.users_of(proof.email):
            messages.info(request, "You already have an account. Log in to use it.")
            return redirect("account_login")
        if proof.invitation is not None:
            request.session[invited.KEY] = proof.invitation
        self.proof = proof
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        return response

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        # Others may have asked to change to this address; its owner is here.
        EmailAddress.objects.filter(email=self.proof.email, verified=False).delete()
        response: HttpResponseBase = super().post(request, *args, **kwargs)
        return response

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "proven": self.proof.email}


finish = FinishView.as_view()
