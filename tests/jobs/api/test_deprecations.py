"""The headers `Deprecation`, `Sunset` and `Link` of requests with deprecated fields."""

import re
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
from django.conf import settings

from jobs import api_mode
from jobs.api import deprecations
from jobs.api.deprecations import DEPRECATED, DeprecatedField
from tests.conftest import Api
from tests.factories import PROFILE
from tests.jobs.api.bodies import BODY, body_with, only_in

FIELD = "runtime.maxRuntimeSeconds"
OLD = body_with(FIELD, 60)
HEADERS = ("Deprecation", "Sunset", "Link")
REFERENCE = (settings.BASE_DIR / "docs/reference/api.md").read_text()

pytestmark = pytest.mark.django_db


def announced(response: Any) -> dict[str, str]:
    return {name: response.headers[name] for name in HEADERS if name in response.headers}


def since(header: str) -> datetime:
    """Return the time of a Date, a type of structured fields (RFC 9651)."""
    found = re.fullmatch(r"@(-?[0-9]{1,15})", header)
    assert found, header
    return datetime.fromtimestamp(int(found[1]), UTC)


@only_in("C")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("jobs", OLD),
        ("jobs/validate", OLD),
        ("jobs/batch", {"jobs": [BODY, OLD]}),
        ("jobs?channel=latest&maxRuntimeSeconds=60", PROFILE),
    ],
    ids=["submission", "dry run", "batch", "plain text"],
)
def test_a_deprecated_field_is_announced(api: Api, path: str, body: Any) -> None:
    media_type = {"content_type": "text/plain"} if isinstance(body, str) else {}
    response = api.post(path, body, **media_type)
    assert (response.status_code, announced(response)) == (
        200,
        {
            "Deprecation": "@1795132800",
            "Link": '<http://testserver/docs/api#deprecations>; rel="deprecation"; type="text/html"',
        },
    )
    assert since(response.headers["Deprecation"]).date() == DEPRECATED[FIELD].since


@only_in("C")
def test_refusals_and_replays_announce_it_too(api: Api) -> None:
    headers = {"idempotency-key": "a"}
    answers = [api.post("jobs", OLD, headers=headers) for _ in range(2)]
    answers.append(api.post("jobs", OLD | {"profile": {"text": "output=/x"}}))
    assert [answer.status_code for answer in answers][:2] == [200, 200]
    assert answers[1].headers["X-Idempotent-Replay"] == "true"
    assert answers[2].status_code >= 400
    assert {answer.headers.get("Deprecation") for answer in answers} == {"@1795132800"}


def test_other_requests_announce_nothing(api: Api, variant: str) -> None:
    answers = [api.post("jobs", BODY), api.post("jobs/validate", BODY), api.get("jobs"), api.post("jobs", "{")]
    assert [announced(answer) for answer in answers] == [{}] * 4


@only_in("R")
def test_the_field_is_not_deprecated_in_the_other_variant(api: Api) -> None:
    assert announced(api.post("jobs", OLD)) == {}


@only_in("C")
def test_the_sunset_is_that_of_the_table(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = DeprecatedField(since=date(2026, 11, 20), sunset=date(2027, 6, 1))
    monkeypatch.setitem(DEPRECATED, FIELD, entry)
    response = api.post("jobs", OLD)
    assert response.headers["Sunset"] == "Tue, 01 Jun 2027 00:00:00 GMT"
    assert parsedate_to_datetime(response.headers["Sunset"]).date() == entry.sunset


def test_the_earliest_dates_of_several_fields_are_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DEPRECATED, "a", DeprecatedField(since=date(2027, 1, 1), sunset=date(2027, 9, 1)))
    monkeypatch.setitem(DEPRECATED, "b", DeprecatedField(since=date(2027, 2, 1), sunset=date(2027, 8, 1)))
    headers = deprecations.headers_for(["b", "a", FIELD], docs_url="https://sim.example.com")
    assert since(headers["Deprecation"]).date() == DEPRECATED[FIELD].since
    assert parsedate_to_datetime(headers["Sunset"]).date() == date(2027, 8, 1)


def test_every_deprecated_field_is_in_the_table_and_in_the_reference() -> None:
    caps = {variant.deprecated_cap_field for variant in api_mode.VARIANTS.values()} - {None}
    assert {f"runtime.{cap}" for cap in caps} <= DEPRECATED.keys()
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (\d{4}-\d\d-\d\d \| [^|]+) \|", REFERENCE, re.MULTILINE))
    expected = {
        field: f"{entry.since.isoformat()} | {entry.sunset.isoformat() if entry.sunset else 'not decided'}"
        for field, entry in DEPRECATED.items()
    }
    assert rows == expected
    changes = (settings.BASE_DIR / "CHANGELOG.md").read_text()
    assert [field for field, entry in DEPRECATED.items() if entry.since.isoformat() not in changes] == []
