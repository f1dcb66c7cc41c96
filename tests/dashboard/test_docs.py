"""The page of the API's operations, and the addresses of explanations in errors."""

import re
from urllib.parse import urlsplit

import pytest
from django.test import Client

import simservice.urls  # noqa: F401  the errors of all packages
from dashboard.public import docs
from simservice.api.errors import ApiError, envelope_of, family
from simservice.api.openapi import document


@pytest.fixture(scope="module")
def page() -> str:
    return Client().get("/docs").content.decode()


@pytest.mark.parametrize("error", [error for error in family() if error.documented], ids=lambda error: error.code)
def test_the_address_in_an_error_leads_to_the_row_that_explains_it(error: type[ApiError]) -> None:
    address = urlsplit(envelope_of(error)["meta"]["docsUrl"])
    row = row_at(address.path, address.fragment)
    assert row.startswith(f"<td><code>{error.code}</code></td>\n<td>{error.status}</td>")
    assert len(re.findall(r"\w+", row)) > 30


@pytest.mark.parametrize("error", list(family()), ids=lambda error: error.code)
def test_every_error_has_a_row_with_its_status_and_the_keys_of_its_meta(error: type[ApiError]) -> None:
    row = row_at("/docs/errors", error.code)
    assert f"<td>{error.status}" in row
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
    assert {name.rpartition(".")[2] for name in re.findall(r"<li><code>([\w.]+)</code>", section)} == fields


def test_every_operation_is_documented(page: str) -> None:
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            assert f'<section id="{operation["operationId"]}">' in page
            assert f"<b>{method.upper()}</b> {path}<" in page


def test_ids_are_unique_and_links_have_targets(page: str) -> None:
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r' href="#([^"]+)"', page)) <= set(ids)
    assert set(re.findall(r' href="/docs/errors#([^"]+)"', page)) <= {error.code for error in family()}


def test_the_page_loads_nothing_from_other_hosts(page: str) -> None:
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page)
    assert re.findall(r"<script[^>]*>", page) == ['<script src="/static/js/copy.js" defer>']


def test_examples_use_the_deployments_url(page: str) -> None:
    assert "http://testserver/v1/sim/jobs?channel=latest" in page


def test_backticked_text_is_code_and_markup_is_escaped() -> None:
    assert docs.to_html("`a<b>` & c") == "<code>a&lt;b&gt;</code> &amp; c"


def test_the_page_names_the_host_of_each_request() -> None:
    for host in ("localhost", "127.0.0.1"):
        assert f"http://{host}/v1/" in Client().get("/docs", headers={"host": host}).content.decode()
