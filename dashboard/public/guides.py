"""The guides and the reference for callers of the API: Markdown files in docs, rendered as pages."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from dashboard.public.compression import compressed_for_visitors
from dashboard.public.docs import RESOURCES
from dashboard.public.documents import FILES, INDEX, REFERENCE
from simservice.api.addresses import base_url
from simservice.api.errors import family
from simservice.api.methods import read_only

# The address, the resource and the brand that the files use: those of `make run`.
LOCAL_URL, LOCAL_RESOURCE, LOCAL_BRAND = "http://127.0.0.1:8000", "sim", "Service"
# Comments for the tests of the documentation, which readers do not need
NOT_RUN = re.compile(r"^<!-- not run: .* -->\n", re.MULTILINE)


class Rendered(NamedTuple):
    """A rendered file: the text of its first heading, and its HTML."""

    title: str
    html: str


@compressed_for_visitors
@read_only
def guides(request: HttpRequest) -> HttpResponse:
    return _respond(request, INDEX)


@compressed_for_visitors
@read_only
def guide(request: HttpRequest, guide: str) -> HttpResponse:
    if guide == INDEX or guide not in FILES:
        raise Http404
    return _respond(request, guide)


@compressed_for_visitors
@read_only
def reference(request: HttpRequest, page: str) -> HttpResponse:
    if page not in REFERENCE:
        raise Http404
    return _respond(request, page)


def _respond(request: HttpRequest, name: str) -> HttpResponse:
    file = (FILES | REFERENCE)[name]
    rendered = _rendered(file, url=base_url(request), resource=settings.API_RESOURCE, brand=settings.SERVICE_BRAND)
    context = {"title": rendered.title, "content": rendered.html, "page": name, "resources": RESOURCES}
    return render(request, "guide.html", context)


# The host name in the address comes from requests, so only a few pages are kept.
@lru_cache(maxsize=24)
def _rendered(file: str, *, url: str, resource: str, brand: str) -> Rendered:
    """Render a file. The arguments are all that it depends on."""
    return rendered_markdown(localized(file, url=url, resource=resource, brand=brand))


def localized(file: str, *, url: str, resource: str, brand: str) -> str:
    """Return the text of a file in docs with the address, the resource and the brand of a deployment."""
    text = NOT_RUN.sub("", (Path(settings.BASE_DIR) / "docs" / file).read_text(encoding="utf-8"))
    text = text.replace(LOCAL_URL, url).replace(f"X-{LOCAL_BRAND}-", f"X-{brand}-")
    if resource == LOCAL_RESOURCE:
        return text
    # The library needs to know a resource that is not its default.
    text = text.replace("Client()", f'Client(resource="{resource}")')
    return text.replace(f"/v1/{LOCAL_RESOURCE}/", f"/v1/{resource}/")


def rendered_markdown(text: str) -> Rendered:
    """Render Markdown. HTML in the text is escaped."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.core.ruler.push("headings", _add_anchors)
    parser.core.ruler.push("columns", _capitalize_columns)
    parser.core.ruler.push("labels", _label_cells)
    parser.core.ruler.push("links", _resolve_links)
    parser.add_render_rule("fence", _render_code)
    tokens = parser.parse(text)
    title = next(_text_of(tokens[index + 1]) for index, token in enumerate(tokens) if token.tag == "h1")
    html = parser.renderer.render(tokens, parser.options, {})
    return Rendered(title, mark_safe(html))  # noqa: S308 - the renderer escapes


def _add_anchors(state: StateCore) -> None:
    """Give every heading the anchor that it has on GitHub, and every row about an error its code."""
    codes = {error.code for error in family()}
    for token, cell, content in zip(state.tokens, state.tokens[1:], state.tokens[2:], strict=False):
        if token.type == "heading_open":
            token.attrSet("id", re.sub(r"[^\w\- ]", "", _text_of(cell).lower()).replace(" ", "-"))
        elif token.type == "tr_open" and (code := _text_of(content)) in codes:
            token.attrSet("id", code)


def _capitalize_columns(state: StateCore) -> None:
    """Begin the names of columns with a capital, as on other pages, unless they are code."""
    for token, content in pairwise(state.tokens):
        if token.type == "th_open" and content.children and content.children[0].type == "text":
            name = content.children[0].content
            content.children[0].content = name[:1].upper() + name[1:]


def _label_cells(state: StateCore) -> None:
    """Name the columns of the cells in tables of three or more: phones show no head of a table."""
    names: list[str] = []
    column = 0
    for token, content in pairwise(state.tokens):
        if token.type == "table_open":
            names = []
        elif token.type == "th_open":
            names.append(_text_of(content))
        elif token.type == "tr_open":
            column = 0
        elif token.type == "td_open":
            if column and len(names) > 2:
                token.attrSet("data-label", names[column])
            column += 1


def _text_of(token: Token) -> str:
    return "".join(child.content for child in token.children or [])


def _resolve_links(state: StateCore) -> None:
    """Replace links to files by the addresses of their pages, and links to other files by their texts."""
    address: str | None = None
    for child in (child for token in state.tokens for child in token.children or []):
        if child.type == "link_open":
            address = resolved(str(child.attrGet("href")))
            child.attrSet("href", address or "")
        if child.type in {"link_open", "link_close"}:
            child.hidden = address is None


def resolved(link: str) -> str | None:
    """Return the address of the page that a link in a file leads to, or None if the file is not a page."""
    path, separator, anchor = link.partition("#")
    if ":" in path or not path:
        return link
    addresses = {
        "openapi.json": reverse("openapi"),
        **{Path(file).name: reverse("guide", args=[guide]) for guide, file in FILES.items()},
        f"{INDEX}.md": reverse("guides"),
        **{f"{page}.md": reverse("reference", args=[page]) for page in REFERENCE},
    }
    page = addresses.get(path.rpartition("/")[2])
    return f"{page}{separator}{anchor}" if page else None


def _render_code(_self: RendererHTML, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    """Render a block of code, with its file name and a button that copies it, or a block of output."""
    language, _, file = tokens[index].info.partition(" ")
    context = {"code": tokens[index].content.rstrip("\n"), "file": file, "is_output": language == "text"}
    return render_to_string("guide_code.html", context)
