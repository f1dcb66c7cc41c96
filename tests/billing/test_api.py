"""`GET credits`."""

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from billing import ledger
from billing.models import GrantReason
from clients.models import ApiKey
from tests.billing import door
from tests.billing.ledger_state import expire_now
from tests.conftest import Api
from tests.factories import make_account

pytestmark = pytest.mark.django_db
FAR = datetime(2999, 12, 31, 23, 0, 0, 5000, tzinfo=UTC)


def test_the_balances_of_the_account_are_returned(api: Api, key: tuple[ApiKey, str]) -> None:
    account = key[0].client.account
    ledger.grant(account, 20, reason=GrantReason.ONBOARDING)
    expiring = ledger.grant(account, 30, reason=GrantReason.GRANT_PROMO, note="Promotion", expires_at=FAR)
    purchased = ledger.balances(account).purchased
    door.hold(account, 5, job_id=1)
    response = api.get("credits")
    assert response.status_code == 200
    assert response.json()["grants"][0] == {
        "id": str(expiring.pk),
        "reason": "grant_promo",
        "note": "Promotion",
        "remaining": 25,
        "original": 30,
        "expiresAt": "2999-12-31T23:00:00.005Z",
    }
    assert [grant["expiresAt"] for grant in response.json()["grants"]] == ["2999-12-31T23:00:00.005Z", None]
    assert [grant["note"] for grant in response.json()["grants"]] == ["Promotion", None]
    assert all(len(grant["id"]) == 18 for grant in response.json()["grants"])
    assert (response.json()["purchased"], response.json()["reserved"]) == (purchased, 5)


def test_expired_grants_and_other_accounts_are_left_out(api: Api, key: tuple[ApiKey, str]) -> None:
    ledger.grant(make_account(), 20, reason=GrantReason.GRANT_PROMO, note="Welcome")
    expiring = ledger.grant(
        key[0].client.account,
        30,
        reason=GrantReason.GRANT_PROMO,
        note="Old",
        expires_at=timezone.now() + timedelta(days=1),
    )
    expire_now(expiring)
    assert api.get("credits").json()["grants"] == []


def test_credits_require_a_key_and_accept_only_get(api: Api) -> None:
    assert Api("sk_nobody").get("credits").status_code == 401
    assert api.post("credits", {}).json()["code"] == "method_not_allowed"
