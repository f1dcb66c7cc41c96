"""The API documentation page."""

import re

import pytest
from django.test import Client

from dashboard.public import docs
from simservice.api.examples import family
from simservice.api.openapi import document


@pytest.fixture(scope="module")
def page() -> str:
    return Client().get("/docs").content.decode()


def test_linked_anchors_exist(page: str) -> None:
    ids = set(re.findall(r' id="([^"]+)"', page))
    assert ids >= {error.code for error in family()} | {"deprecations"}


def test_every_operation_is_documented(page: str) -> None:
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            assert f'<section id="{operation["operationId"]}">' in page
            assert f"<b>{method.upper()}</b> {path}<" in page


def test_ids_are_unique_and_links_have_targets(page: str) -> None:
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r' href="#([^"]+)"', page)) <= set(ids)


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
