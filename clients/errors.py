"""Errors of the rules for clients, keys, members, invitations and form tokens."""


class ClientNameTaken(Exception):
    """The account already has a client with this name."""


class NotAMember(Exception):
    """The user does not belong to the account any more."""


class InvalidAddresses(Exception):
    """A list of addresses for a key is invalid. The message is shown to the member."""


class TooManyKeys(Exception):
    """The account cannot have another key. The message is shown to the member."""


class TooManyClients(Exception):
    """The account cannot have another client. The message is shown to the member."""


class LastOwner(Exception):
    """The change would leave the account without an owner who can log in."""


class InvitationRefused(Exception):
    """The invitation cannot be created; the message is a sentence for the inviter."""


class UnverifiedInviter(InvitationRefused):
    """The inviter has no verified email address, so the recipient could not check who sent the invitation."""


class InvitationClosed(Exception):
    """The invitation was accepted, revoked or replaced, or it has expired."""


class FormAlreadySent(Exception):
    """The form was sent before and has been processed."""


class InvalidFormToken(Exception):
    """The token is forged, older than a day, or was issued to another user or for another purpose."""
