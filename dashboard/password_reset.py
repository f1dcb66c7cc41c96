"""Password reset with a mailed link, which only the owner of a known address gets."""

from allauth.account.forms import default_token_generator
from allauth.account.utils import user_pk_to_url_str
from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.urls import reverse

from dashboard import backends, mails
from simservice.api.addresses import base_url


def request_link(request: HttpRequest, email: str) -> None:
    """Have a link mailed to an address. The request does the same for every address."""
    mails.request(request, "dashboard.tasks.mail_reset_link", email=email, base=base_url(request))


def mail_link(*, email: str, base: str) -> bool:
    """Mail a link to the user with this address; return False for an unknown one, or when no mail could be sent."""
    users = [user for user in backends.users_of(email) if user.is_active]
    if not users:
        return False
    context = {
        "links": [(user.get_username(), base + path_for(user)) for user in users],
        "days": settings.PASSWORD_RESET_TIMEOUT // (24 * 60 * 60),
    }
    subject = f"Reset your password at {settings.SERVICE_BRAND}"
    return mails.send_seldom("mail/password_reset.txt", to=email, subject=subject, context=context)


def path_for(user: User) -> str:
    """Return the path of a page that lets a user choose a new password, once."""
    values = {"uidb36": user_pk_to_url_str(user), "key": default_token_generator.make_token(user)}
    return reverse("account_reset_password_from_key", kwargs=values)
