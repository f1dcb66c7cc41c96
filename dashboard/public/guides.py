"""The guides for API consumers: Markdown files in docs, rendered as pages."""

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import mark_safe
from django.views.decorators.gzip import gzip_page
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from simservice.api.addresses import base_url
from simservice.api.methods import read_only

INDEX = "use-the-api"
FILES = {
    INDEX: "how-to/use-the-api.md",
    "tutorial": "tutorial/first-result.md",
    "compare-trinkets": "how-to/compare-trinkets.md",
    "nightly-regression": "how-to/nightly-regression.md",
    "discord-bot": "how-to/discord-bot.md",
    "backfill": "how-to/backfill.md",
}
# The address and the resource that the files use: those of `make run`.
LOCAL_URL, LOCAL_RESOURCE = "http://127.0.0.1:8000", "sim"
# What the rest of the documentation is on the web. Its headings have other anchors there.
ELSEWHERE = {"api.md": "/docs", "profiles.md": "/docs", "webhooks.md": "/docs#webhooks"}


# Public, so its compressed size reveals no secret.
@gzip_page
@read_only
def guides(request: HttpRequest) -> HttpResponse:
    return _respond(request, INDEX)


@gzip_page
@read_only
def guide(request: HttpRequest, guide: str) -> HttpResponse:
    if guide == INDEX or guide not in FILES:
        raise Http404
    return _respond(request, guide)


def _respond(request: HttpRequest, name: str) -> HttpResponse:
    page = _page(name, url=base_url(request), resource=settings.API_RESOURCE, brand=settings.SERVICE_BRAND)
    return HttpResponse(page)


# The host name in the address comes from requests, so only a few pages are kept.
@lru_cache(maxsize=24)
def _page(name: str, *, url: str, resource: str, brand: str) -> str:
    """Render a page. The arguments are all that it depends on."""
    text = (Path(settings.BASE_DIR) / "docs" / FILES[name]).read_text(encoding="utf-8")
    title, content = render(_localized(text, url=url, resource=resource))
    context = {"brand": brand, "title": title, "content": content, "is_index": name == INDEX}
    return render_to_string("guide.html", context)


def _localized(text: str, *, url: str, resource: str) -> str:
    """Return a guide with the address and the resource of a deployment."""
    text = text.replace(LOCAL_URL, url)
    if resource == LOCAL_RESOURCE:
        return text
    # The library needs to know a resource that is not its default.
    text = text.replace("Client()", f'Client(resource="{resource}")')
    return text.replace(f"/v1/{LOCAL_RESOURCE}/", f"/v1/{resource}/")


def render(text: str) -> tuple[str, str]:
    """Render Markdown. Return the text of the first heading, and the HTML. HTML in the text is escaped."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.core.ruler.push("headings", _add_anchors)
    parser.core.ruler.push("links", _resolve_links)
    parser.add_render_rule("fence", _render_code)
    tokens = parser.parse(text)
    title = next(_text_of(tokens[index + 1]) for index, token in enumerate(tokens) if token.tag == "h1")
    html = parser.renderer.render(tokens, parser.options, {})
    return title, mark_safe(html)  # noqa: S308 - the renderer escapes


def _add_anchors(state: StateCore) -> None:
    """Give every heading the anchor that it has on GitHub."""
    for token, content in zip(state.tokens, state.tokens[1:], strict=False):
        if token.type == "heading_open":
            token.attrSet("id", re.sub(r"[^\w\- ]", "", _text_of(content).lower()).replace(" ", "-"))


def _text_of(token: Token) -> str:
    return "".join(child.content for child in token.children or [])


def _resolve_links(state: StateCore) -> None:
    """Replace links to files by the addresses of their pages."""
    for child in (child for token in state.tokens for child in token.children or []):
        if child.type == "link_open":
            child.attrSet("href", resolved(str(child.attrGet("href"))))


def resolved(link: str) -> str:
    """Return the address of the page that a link in a guide leads to."""
    path, separator, anchor = link.partition("#")
    name = path.rpartition("/")[2]
    if ":" in path or not name.endswith(".md"):
        return link
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    guide = next(guide for guide, file in FILES.items() if file.endswith(f"/{name}"))
    page = reverse("guides") if guide == INDEX else reverse("guide", args=[guide])
    return f"{page}{separator}{anchor}"


def _render_code(_self: RendererHTML, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    """Render a block of code, with its file name and a button that copies it, or a block of output."""
    language, _, file = tokens[index].info.partition(" ")
    context = {"code": tokens[index].content.rstrip("\n"), "file": file, "is_output": language == "text"}
    return render_to_string("guide_code.html", context)
