"""Mailboxes that have opened an account: each gets welcome credits once, whatever its address looks like.

Only keyed hashes are stored, which outlive their users. They are recognized as long as their key is in `SECRET_KEY`
or `SECRET_KEY_FALLBACKS`.
"""

from allauth.account.models import EmailAddress
from django.contrib.auth.models import User

from clients.models import FirstAccount, UsedMailbox
from simservice.encryption import Purpose, digests

# Gmail ignores dots, and has two domains: https://support.google.com/mail/answer/7436150
GMAIL = {"gmail.com", "googlemail.com"}


def mailbox_of(address: str) -> str:
    """Return the address of the mailbox that receives mail to an address: without tag, in lower case."""
    local, _, domain = address.lower().rpartition("@")
    local = local.partition("+")[0] or local
    return f"{local.replace('.', '')}@gmail.com" if domain in GMAIL else f"{local}@{domain}"


def claim(user: User) -> bool:
    """Record the mailbox of a user who opens an account. Return whether it opened none before.

    Of two simultaneous calls for one mailbox, the second waits for the first. At most four queries.
    """
    current, *former = _digests(user.email or user.get_username())
    _, is_new = UsedMailbox.objects.get_or_create(digest=current)
    return is_new and not UsedMailbox.objects.filter(pk__in=former).exists()


def remember(user: User) -> None:
    """Record every mailbox of a user who is being deleted, if they opened an account."""
    if FirstAccount.objects.filter(user=user).exists():
        verified = EmailAddress.objects.filter(user=user, verified=True).values_list("email", flat=True)
        rows = [UsedMailbox(digest=_digests(address)[0]) for address in {user.email, *verified} if address]
        UsedMailbox.objects.bulk_create(rows, ignore_conflicts=True)


def _digests(address: str) -> list[str]:
    """Return keyed hashes of an address's mailbox, the current key's first."""
    return digests(mailbox_of(address), purpose=Purpose.MAILBOXES)
