"""The invitation whose link a visitor followed, kept in the session while they log in or sign up."""

from django.http import HttpRequest

from clients import invitations
from clients.models import Invitation

SESSION_KEY = "invitation"


def remember(request: HttpRequest, invitation: Invitation) -> None:
    """Store the invitation's id, but not its token, in the visitor's session."""
    request.session[SESSION_KEY] = invitation.pk


def find(request: HttpRequest) -> Invitation | None:
    """Return the visitor's invitation if it can still be accepted."""
    pk = request.session.get(SESSION_KEY)
    return invitations.open_invitations().filter(pk=pk).first() if pk is not None else None


def forget(request: HttpRequest) -> None:
    """Remove the invitation from the visitor's session."""
    request.session.pop(SESSION_KEY, None)
