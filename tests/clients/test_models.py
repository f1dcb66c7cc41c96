"""Database constraints of clients."""

import pytest
from django.db import IntegrityError, transaction

from clients.accounts import default_client
from clients.models import Client
from tests.factories import make_account

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("constraint", "fields"),
    [
        ("client_one_default", {"name": "default", "is_default": True}),
        ("client_default_named_default", {"name": "other", "is_default": True}),
        ("client_default_named_default|client_name_unique", {"name": "default", "is_default": False}),
    ],
)
def test_an_account_has_exactly_one_built_in_client(constraint: str, fields: dict[str, object]) -> None:
    account = make_account()
    assert default_client(account).name == "default"
    with pytest.raises(IntegrityError, match=f"{constraint}|client_name_unique"), transaction.atomic():
        Client.objects.create(account=account, **fields)
