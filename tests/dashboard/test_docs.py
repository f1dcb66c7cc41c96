"""The page of the API's operations, and the addresses of explanations in errors."""

import re
from urllib.parse import urlsplit

import pytest
from django.test import Client

import simservice.urls  # noqa: F401  the errors of all packages
from clients.models import Membership
from dashboard.public import docs
from dashboard.templatetags.descriptions import with_code
from simservice.api.errors import ApiError, envelope_of, family
from simservice.api.openapi import document
from tests.dashboard.browsing import browser_of, text_of
from tests.factories import make_key

LINK = re.compile(r' href="((?:/docs[^"#]*)?)#([^"]+)"')
OBJECT = re.compile(r' href="(/docs/objects/[^"#.]+)"')


def text_at(path: str) -> str:
    response = Client().get(path)
    assert response.status_code == 200, path
    return str(response.content.decode())


@pytest.fixture(scope="module")
def page() -> str:
    return text_at("/docs")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """Return the HTML of all pages about operations and objects, by their paths."""
    objects = [f"/docs/objects/{name}" for name in document()["components"]["schemas"]]
    return {
        path: text_at(path)
        for path in ("/docs", *(f"/docs/operations/{slug}" for slug in docs.RESOURCES), *objects)
    }


@pytest.mark.parametrize("error", [error for error in family() if error.documented], ids=lambda error: error.code)
def test_the_address_in_an_error_leads_to_the_row_that_explains_it(error: type[ApiError]) -> None:
    address = urlsplit(envelope_of(error)["meta"]["docsUrl"])
    row = row_at(address.path, address.fragment)
    assert row.startswith(f'<td><code>{error.code}</code></td>\n<td data-label="Status">{error.status}</td>')
    assert len(re.findall(r"\w+", row)) > 30


@pytest.mark.parametrize("error", list(family()), ids=lambda error: error.code)
def test_every_error_has_a_row_with_its_status_and_the_keys_of_its_meta(error: type[ApiError]) -> None:
    row = row_at("/docs/errors", error.code)
    assert f'<td data-label="Status">{error.status}' in row
    blocked = {"blocked", "blockedCount", "blockedTruncated"} if "<code>blocked…</code>" in row else set()
    meta = set() if "Keys as in" in row else set(envelope_of(error)["meta"] or {})
    assert {key for key in meta - blocked if f"<code>{key}</code>" not in row} == set()


def row_at(path: str, anchor: str) -> str:
    """Return the content of the table row with an anchor."""
    (row,) = re.findall(rf'<tr id="{anchor}">\n(.*?)</tr>', Client().get(path).content.decode(), re.DOTALL)
    return str(row)


def test_the_address_in_a_deprecation_leads_to_the_field() -> None:
    page = Client().get("/docs/api").content.decode()
    (section,) = re.findall(r'id="deprecations">(.*?)<h', page, re.DOTALL)
    fields = {
        name
        for schema in document()["components"]["schemas"].values()
        for name, field in schema.get("properties", {}).items()
        if field.get("deprecated")
    }
    assert {
        name.rpartition(".")[2] for name in re.findall(r"<td><code>([\w.]+)</code></td>\n<td[^>]*>\d", section)
    } == fields


def test_every_operation_is_documented_on_the_page_of_its_tag(pages: dict[str, str]) -> None:
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            text = pages[f"/docs/operations/{operation['tags'][0].lower()}"]
            assert f'<section id="{operation["operationId"]}"' in text
            assert f"<b>{method.upper()}</b> {path}<" in text


def test_anchors_of_the_start_lead_to_every_operation_and_object(page: str) -> None:
    """Earlier versions had everything on one page."""
    ids = set(re.findall(r' id="([^"]+)"', page))
    assert {one["operationId"] for methods in document()["paths"].values() for one in methods.values()} <= ids
    assert {f"object-{name}" for name in document()["components"]["schemas"]} <= ids
    assert "start" in ids


def test_ids_are_unique_and_links_have_targets(pages: dict[str, str]) -> None:
    ids = {path: re.findall(r' id="([^"]+)"', text) for path, text in pages.items()}
    for path, found in ids.items():
        assert len(found) == len(set(found)), path
    links = {(target or path, anchor) for path, text in pages.items() for target, anchor in LINK.findall(text)}
    errors = {error.code for error in family()}
    for target, anchor in links:
        assert anchor in (errors if target == "/docs/errors" else ids[target]), (target, anchor)
    assert {target for text in pages.values() for target in OBJECT.findall(text)} <= set(pages)


def test_the_pages_load_nothing_from_other_hosts(pages: dict[str, str]) -> None:
    for text in pages.values():
        assert not re.search(r'(?:src|href)="(?:https?:)?//', text)
        assert set(re.findall(r'<script src="([^"]+)"', text)) <= {"/static/js/copy.js", "/static/js/docs.js"}


@pytest.mark.parametrize(
    ("term", "operations", "objects"),
    [
        ("CANCEL", ["cancelJob"], ["CancelRequested", "Cancelled"]),
        ("/status", ["getJobStatus"], []),
        ("'<b>", [], []),
    ],
)
def test_a_text_filters_operations_and_objects(term: str, operations: list[str], objects: list[str]) -> None:
    text = Client().get("/docs", {"q": term}).content.decode()
    assert re.findall(r'<li id="(\w+)"', text) == operations
    assert [name for name in re.findall(r'<li id="object-(\w+)"', text) if name in objects] == objects
    assert "<b>" not in text.partition("<main")[2]


def test_a_filter_finds_objects_by_their_fields() -> None:
    assert 'id="object-PlanLimits"' in Client().get("/docs", {"q": "maxActiveJobs"}).content.decode()


@pytest.mark.parametrize("path", ["/docs/operations/nothing", "/docs/objects/nothing", "/docs/operations/Jobs"])
def test_unknown_pages_are_not_found(path: str) -> None:
    assert Client().get(path).status_code == 404


def test_the_resources_are_the_tags_of_the_document() -> None:
    tags = [operation["tags"][0] for methods in document()["paths"].values() for operation in methods.values()]
    assert list(docs.RESOURCES.items()) == [(tag.lower(), tag) for tag in dict.fromkeys(tags)]


@pytest.mark.django_db
def test_users_see_the_limits_of_their_account_but_no_key(owner: Membership) -> None:
    key, secret = make_key(owner.account)
    owner.account.plan.max_active_jobs = 77
    owner.account.plan.save()
    text = text_of(browser_of(owner).get("/docs"))
    assert f"Your account {owner.account}" in text
    assert "Active jobs 0 of 77" in text
    assert key.last4 not in text
    assert secret not in text
    assert "Your account" not in text_of(Client().get("/docs"))


@pytest.mark.django_db
def test_pages_of_users_are_not_compressed(owner: Membership) -> None:
    headers = {"accept-encoding": "gzip"}
    assert Client().get("/docs", headers=headers).headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in browser_of(owner).get("/docs", headers=headers).headers


def test_examples_use_the_deployments_url(page: str) -> None:
    assert "http://testserver/v1/sim/jobs?channel=latest" in page
    assert "http://testserver/v1/sim/jobs" in text_at("/docs/operations/jobs")


def test_backticked_text_is_code_and_markup_is_escaped() -> None:
    assert with_code("`a<b>` & c") == "<code>a&lt;b&gt;</code> &amp; c"


def test_the_page_names_the_host_of_each_request() -> None:
    for host in ("localhost", "127.0.0.1"):
        assert f"http://{host}/v1/" in Client().get("/docs", headers={"host": host}).content.decode()
