"""A visitor who followed an invitation's link, remembered while they log in or sign up."""

from django.http import HttpRequest

from clients import invitations
from clients.models import Invitation

KEY = "invitation"


def remember(request: HttpRequest, invitation: Invitation) -> None:
    """Note in the visitor's session which invitation they came with; its token is not in it."""
    request.session[KEY] = invitation.pk


def to(request: HttpRequest) -> Invitation | None:
    """Return the invitation that the visitor came with if it can still be accepted. At most a query."""
    number = request.session.get(KEY)
    return invitations.open_invitations().filter(pk=number).first() if number is not None else None


def forget(request: HttpRequest) -> None:
    """Note that the invitation was answered."""
    request.session.pop(KEY, None)
