"""Email addresses of deleted users who had opened an account, which do not get welcome credits again.

Only keyed hashes are stored. They are recognized as long as their key is in `SECRET_KEY` or `SECRET_KEY_FALLBACKS`.
"""

from allauth.account.models import EmailAddress
from django.contrib.auth.models import User

from clients.models import FirstAccount, FormerAddress
from simservice.encryption import Purpose, digests


def remember(user: User) -> None:
    """Remember the addresses of a user who is being deleted, if they opened an account."""
    if not FirstAccount.objects.filter(user=user).exists():
        return
    verified = EmailAddress.objects.filter(user=user, verified=True).values_list("email", flat=True)
    rows = [FormerAddress(digest=_digests(address)[0]) for address in {user.email, *verified} if address]
    FormerAddress.objects.bulk_create(rows, ignore_conflicts=True)


def includes(address: str) -> bool:
    """Return whether a deleted user had this address. One query."""
    return FormerAddress.objects.filter(pk__in=_digests(address)).exists()


def _digests(address: str) -> list[str]:
    return digests(address.lower(), purpose=Purpose.FORMER_ADDRESSES)
