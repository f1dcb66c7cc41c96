"""`manage.py createkey`."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from clients.keys import find_key
from tests.factories import make_account

pytestmark = pytest.mark.django_db


def createkey(*arguments: str) -> str:
    """Run the command and return what it prints."""
    out = StringIO()
    call_command("createkey", *arguments, stdout=out)
    return out.getvalue().strip()


def test_it_prints_a_key_of_the_built_in_client() -> None:
    account = make_account()
    key = find_key(createkey(account.name))
    assert key is not None
    assert (key.client.account, key.client.name, key.expires_at) == (account, "default", None)


def test_a_key_can_expire() -> None:
    key = find_key(createkey(make_account().name, "--days", "3"))
    assert key is not None
    assert key.expires_at is not None
    assert (key.expires_at - key.created_at).days in (2, 3)


@pytest.mark.parametrize("arguments", [["nobody"], ["{account}", "--client", "bot"], ["{account}", "--days", "0"]])
def test_invalid_arguments_are_rejected(arguments: list[str]) -> None:
    account = make_account()
    with pytest.raises(CommandError, match=r"\."):
        createkey(*(argument.format(account=account.name) for argument in arguments))
