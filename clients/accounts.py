"""Opening accounts: each comes with its built-in client."""

from django.db import transaction

from billing import ledger
from billing.models import Account, Plan
from clients.models import DEFAULT_CLIENT, Client


@transaction.atomic
def open_account(name: str, *, plan: Plan) -> Account:
    """Create an account on `plan` together with its default client and the current month's allowance."""
    account = Account.objects.create(name=name, plan=plan)
    Client.objects.create(account=account, name=DEFAULT_CLIENT, is_default=True)
    ledger.grant_allowance(account)
    return account


def default_client(account: Account) -> Client:
    """Return the client that new keys of `account` attach to."""
    return account.clients.get(is_default=True)
