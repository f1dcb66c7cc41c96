"""Sign-up by mail. The page shows the same for every address; only its owner learns whether it is known."""

from datetime import timedelta
from typing import Any

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

from dashboard.login import backends, pending_invitation
from simservice.api.addresses import base_url
from simservice.web import mail

SALT = "sign-up"
VALID_FOR = timedelta(days=3)


def request_link(request: HttpRequest, email: str) -> None:
    """Enqueue the mail with the link. Does the same work for every address."""
    invitation = pending_invitation.find(request)
    mail.enqueue(
        request,
        "dashboard.tasks.mail_sign_up_link",
        email=email,
        base=base_url(request),
        wanted=get_next_redirect_url(request) or "",
        invitation=invitation and invitation.pk,
    )


def mail_link(*, email: str, base: str, wanted: str, invitation: int | None) -> bool:
    """Mail the link that finishes the sign-up, or a note that the user exists. Return whether a mail was sent.

    The link leads on to the path `wanted`.
    """
    context: dict[str, Any] = {"base": base, "days": VALID_FOR.days}
    if backends.users_with(email):
        template, subject = "mail/sign_up_known.txt", f"You have already signed up at {settings.SERVICE_BRAND}"
    else:
        template, subject = "mail/sign_up.txt", f"Finish signing up at {settings.SERVICE_BRAND}"
        token = signing.dumps((email, invitation), salt=SALT)
        query = "?" + urlencode({"next": wanted}) if wanted else ""
        context["link"] = base + reverse("finish_sign_up", args=[token]) + query
    return mail.send(template, to=email, subject=subject, context=context, is_throttled=True)


class FinishView(SignupView):
    """The page of a mailed link: ask for a password and create the user with a verified address."""

    def dispatch(self, request: HttpRequest, *args: Any, token: str, **kwargs: Any) -> HttpResponseBase:
        try:
            self.email, invitation = signing.loads(token, salt=SALT, max_age=VALID_FOR)
        except signing.BadSignature:
            return render(request, "account/sign_up_expired.html", status=404)
        if backends.users_with(self.email):
            messages.info(request, "You have already signed up. Log in instead.")
            return redirect("account_login")
        if invitation is not None:
            request.session[pending_invitation.SESSION_KEY] = invitation
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        return response

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        # Another user may have claimed the address without verifying it. The link proves who owns it.
        EmailAddress.objects.filter(email=self.email, verified=False).delete()
        response: HttpResponseBase = super().post(request, *args, **kwargs)
        return response

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "verified_email": self.email}


finish = FinishView.as_view()
