"""The documentation as text: Markdown of every page, `/llms.txt` and `/llms-full.txt`."""

import gzip
import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings as project
from django.test import Client
from markdown_it import MarkdownIt
from pytest_django import Settings
from pytest_django.fixtures import DjangoAssertNumQueries

from dashboard.public import docs
from dashboard.public.documents import FILES, INDEX, REFERENCE
from simservice.api.openapi import document

PAGES = [
    "/docs",
    "/docs/guides",
    *(f"/docs/guides/{name}" for name in FILES if name != INDEX),
    *(f"/docs/{name}" for name in REFERENCE),
    *(f"/docs/operations/{slug}" for slug in docs.RESOURCES),
    *(f"/docs/objects/{name}" for name in document()["components"]["schemas"]),
]
TEXTS = [*(f"{page}.md" for page in PAGES), "/docs/guides/use-the-api.md"]
LISTS = ["/llms.txt", "/llms-full.txt"]
HOST = "http://testserver"


def response_at(path: str) -> Any:
    response = Client().get(path)
    assert response.status_code == 200, path
    return response


def text_at(path: str) -> str:
    return str(response_at(path).content.decode())


def links_in(text: str) -> list[str]:
    """Return the targets of the links of a Markdown text."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    children = [child for token in tokens for child in token.children or []]
    return [str(child.attrs["href"]) for child in children if child.type == "link_open"]


def headings_in(text: str) -> set[str]:
    """Return the anchors of the headings of a Markdown text, and of its rows about errors."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    titles = [tokens[index + 1].content for index, token in enumerate(tokens) if token.type == "heading_open"]
    anchors = {re.sub(r"[^\w\- ]", "", title.replace("`", "").lower()).replace(" ", "-") for title in titles}
    return anchors | set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))


@pytest.mark.parametrize("path", TEXTS)
def test_every_link_of_a_text_leads_to_a_text(path: str) -> None:
    for link in links_in(text_at(path)):
        address, _, anchor = link.partition("#")
        if address and not address.startswith(HOST):
            assert urlsplit(address).scheme == "https", link
            continue
        target = urlsplit(address).path or path
        assert target == "/v1/openapi.json" or target.endswith(".md"), link
        assert not anchor or anchor in headings_in(text_at(target)), link
        response_at(target)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_names_its_text(path: str) -> None:
    (link,) = re.findall(r'<link rel="alternate" type="text/markdown" href="([^"]+)">', text_at(path))
    assert link == f"{path}.md"
    response = response_at(link)
    assert response.headers["Content-Type"] == "text/markdown; charset=utf-8"
    assert response.content.startswith(b"# ")


def test_a_filtered_page_names_its_text() -> None:
    assert 'href="/docs.md"' in text_at("/docs?q=cancel")


def test_the_list_has_a_title_a_summary_and_a_line_about_each_page() -> None:
    text = text_at("/llms.txt")
    title, _, summary, *_ = text.splitlines()
    assert (title, summary[:2]) == ("# Service API", "> ")
    listed = re.findall(r"^- \[[^\]]+\]\((\S+?)\)(: \S.*)?$", text, re.MULTILINE)
    assert [link for link, description in listed if not description] == []
    expected = {f"{HOST}{page}.md" for page in PAGES if page != "/docs/guides"}
    guides = f"{HOST}/docs/guides/use-the-api.md"
    assert {link for link, _ in listed} == {*expected, guides, f"{HOST}/v1/openapi.json"}
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["API", "Guides", "Reference", "Optional"]
    for link in links_in(text):
        response_at(urlsplit(link).path)


def test_one_text_has_all_pages() -> None:
    whole = text_at("/llms-full.txt")
    assert [path for path in TEXTS if text_at(path) not in whole] == []


@pytest.mark.parametrize("path", LISTS)
def test_the_lists_are_plain_text(path: str) -> None:
    assert response_at(path).headers["Content-Type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("path", [*LISTS, "/docs.md", "/docs/api.md", "/docs/operations/jobs.md"])
def test_texts_name_the_address_the_resource_and_the_brand_of_their_deployment(
    path: str, settings: Settings
) -> None:
    settings.PUBLIC_BASE_URL, settings.SERVICE_BRAND = "https://sims.example", "Acme"
    text = text_at(path)
    assert "https://sims.example/" in text
    assert "127.0.0.1:8000" not in text
    assert "testserver" not in text
    assert "Service API" not in text
    assert "X-Service-" not in text


@pytest.mark.parametrize("path", ["/docs/api.md", "/docs/guides/tutorial.md"])
def test_texts_name_the_resource_of_their_deployment(path: str, settings: Settings) -> None:
    settings.API_RESOURCE = "runs"
    text = text_at(path)
    assert "/v1/runs/" in text
    assert "/v1/sim/" not in text


@pytest.mark.parametrize("path", [*LISTS, "/docs.md", "/docs/errors.md"])
def test_texts_are_compressed_and_need_no_query(
    path: str, django_assert_num_queries: DjangoAssertNumQueries, db: None
) -> None:
    with django_assert_num_queries(0):
        response = Client().get(path, headers={"accept-encoding": "gzip"})
    assert response.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(response.content).decode() == text_at(path)


def test_blocks_of_code_are_not_changed() -> None:
    source = (project.BASE_DIR / "docs" / FILES["discord-bot"]).read_text()
    blocks = re.findall(r"^```.*?^```$", source.replace("http://127.0.0.1:8000", HOST), re.DOTALL | re.MULTILINE)
    assert blocks
    text = text_at("/docs/guides/discord-bot.md")
    assert [block for block in blocks if block not in text] == []


def test_a_link_to_a_file_that_is_not_a_page_becomes_text() -> None:
    text = text_at("/docs/stability.md")
    assert "[changelog]" not in text
    assert "The\nchangelog lists every change." in text


def test_texts_have_no_html_in_descriptions() -> None:
    text = text_at("/docs/operations/jobs.md")
    assert "<code>" not in text
    assert "&" not in re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL).replace("R&D", "")
    assert "- `job_id` (string, path" in text


@pytest.mark.parametrize("path", ["/docs/nothing.md", "/docs/guides/nothing.md", "/docs/tutorial.md"])
def test_unknown_texts_are_not_found(path: str) -> None:
    assert Client().get(path).status_code == 404


@pytest.mark.parametrize(
    "path", ["/docs/operations/nothing.md", "/docs/objects/nothing.md", "/docs/objects/job.md"]
)
def test_unknown_resources_and_objects_are_not_found(path: str) -> None:
    assert Client().get(path).status_code == 404
