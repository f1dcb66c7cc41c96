"""Password reset by mail. The page shows the same for every address; only a user of the service gets a link."""

from allauth.account.forms import default_token_generator
from allauth.account.utils import user_pk_to_url_str
from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from dashboard.login import backends
from simservice.api.addresses import base_url
from simservice.web import mail


def request_link(request: HttpRequest, email: str) -> None:
    """Enqueue the mail with the link. Does the same work for every address."""
    mail.enqueue(request, "dashboard.tasks.mail_reset_link", email=email, base=base_url(request))


def mail_link(*, email: str, base: str) -> bool:
    """Mail a link to each active user with this address. Return whether a mail was sent."""
    users = [user for user in backends.users_with(email) if user.is_active]
    if not users:
        return False
    links = []
    for user in users:
        values = {"uidb36": user_pk_to_url_str(user), "key": default_token_generator.make_token(user)}
        links.append((user.get_username(), base + reverse("account_reset_password_from_key", kwargs=values)))
    context = {
        "links": links,
        "days": settings.PASSWORD_RESET_TIMEOUT // (24 * 60 * 60),
    }
    subject = f"Reset your password at {settings.SERVICE_BRAND}"
    return mail.send("mail/password_reset.txt", to=email, subject=subject, context=context, is_throttled=True)
