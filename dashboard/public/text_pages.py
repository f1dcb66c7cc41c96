"""The documentation as text for programs: every page as Markdown, `/llms.txt` and `/llms-full.txt`.

The texts are the same for everyone, so they can be cached and are always compressed.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, wraps
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.views.decorators.gzip import gzip_page

from dashboard.public.docs import reference_of
from dashboard.public.documents import FILES, INDEX, REFERENCE
from dashboard.public.guides import localized, resolved
from dashboard.public.reference_text import object_text, resource_text
from simservice.api.addresses import api_url, base_url
from simservice.api.methods import read_only

CODE_BLOCK = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
# A row of a table in docs/README.md: the title of a page, its file and its description
ROW = re.compile(r"^\| \[([^\]]+)\]\(([^)]+)\) \| (.+) \|$", re.MULTILINE)

Text = Callable[..., str]
View = Callable[..., HttpResponseBase]


class Page(NamedTuple):
    """A page in the list of all pages."""

    title: str
    address: str
    description: str


def _responds_with(media_type: str) -> Callable[[Text], View]:
    """Return a decorator that turns a function that returns text into a view."""

    def decorate(text_of: Text) -> View:
        @gzip_page
        @read_only
        @wraps(text_of)
        def view(request: HttpRequest, **names: str) -> HttpResponse:
            headers = {"Cache-Control": "public, max-age=300"}
            content_type = f"{media_type}; charset=utf-8"
            return HttpResponse(text_of(request, **names), content_type=content_type, headers=headers)

        return view

    return decorate


@_responds_with("text/plain")
def llms(request: HttpRequest) -> str:
    """Return how to get a ranking, and a list of all pages (https://llmstxt.org)."""
    return _rendered(
        request,
        "llms.txt",
        guides=_listed(FILES, prefix="/guides"),
        rules=_listed(REFERENCE, prefix=""),
    )


@_responds_with("text/plain")
def llms_full(request: HttpRequest) -> str:
    """Return all pages in one text."""
    return "\n".join(_all_pages(request))


@_responds_with("text/markdown")
def start(request: HttpRequest) -> str:
    """Return how to get a ranking, and the lists of operations and objects."""
    return _rendered(request, "docs.md")


@_responds_with("text/markdown")
def guide(request: HttpRequest, guide: str) -> str:
    """Return a guide, or the list of guides."""
    if guide not in FILES:
        raise Http404
    return _file_text(request, FILES[guide])


@_responds_with("text/markdown")
def rules(request: HttpRequest, page: str) -> str:
    """Return a page of the reference, or the list of guides, whose address has the same form."""
    files = {**REFERENCE, "guides": FILES[INDEX]}
    if page not in files:
        raise Http404
    return _file_text(request, files[page])


@_responds_with("text/markdown")
def resource(request: HttpRequest, resource: str) -> str:
    """Return the operations of a resource."""
    for tag in reference_of(request)["tags"]:
        if tag["slug"] == resource:
            return resource_text(tag, docs_url=_docs_url(request))
    raise Http404


@_responds_with("text/markdown")
def object_page(request: HttpRequest, name: str) -> str:
    """Return the fields of an object."""
    for entry in reference_of(request)["objects"]:
        if entry["name"] == name:
            return object_text(entry, docs_url=_docs_url(request))
    raise Http404


def _docs_url(request: HttpRequest) -> str:
    return f"{base_url(request)}/docs"


def _all_pages(request: HttpRequest) -> Iterator[str]:
    reference, docs_url = reference_of(request), _docs_url(request)
    yield _rendered(request, "docs.md")
    for file in (FILES | REFERENCE).values():
        yield _file_text(request, file)
    for tag in reference["tags"]:
        yield resource_text(tag, docs_url=docs_url)
    for entry in reference["objects"]:
        yield object_text(entry, docs_url=docs_url)


def _rendered(request: HttpRequest, template: str, **lists: list[Page]) -> str:
    """Return a text about the operations and objects of this deployment."""
    addresses = {"base": base_url(request), "api": api_url(request), "docs_url": _docs_url(request)}
    context = {"brand": settings.SERVICE_BRAND, **addresses, **reference_of(request), **lists}
    return render_to_string(template, context)


def _file_text(request: HttpRequest, file: str) -> str:
    """Return a file with the addresses of this deployment, and links to the texts of other pages."""
    base = base_url(request)
    text = localized(file, url=base, resource=settings.API_RESOURCE, brand=settings.SERVICE_BRAND)
    # The odd parts are blocks of code.
    parts = CODE_BLOCK.split(text)
    parts[::2] = [LINK.sub(lambda found: _link(found, base=base), part) for part in parts[::2]]
    return "".join(parts)


def _link(found: re.Match[str], *, base: str) -> str:
    """Return a link to the text of a page, or the words of a link to a file that is not a page."""
    words, target = found.groups()
    address = resolved(target)
    if address is None:
        return words
    path, separator, anchor = address.partition("#")
    if path.startswith("/docs"):
        path = f"{base}{path}.md"
    elif path.startswith("/"):
        path = base + path
    return f"[{words}]({path}{separator}{anchor})"


def _listed(files: Mapping[str, str], *, prefix: str) -> list[Page]:
    """Return the pages of files, with titles and descriptions from the list in docs/README.md."""
    return [Page(_rows()[file][0], f"{prefix}/{name}.md", _rows()[file][1]) for name, file in files.items()]


@cache
def _rows() -> dict[str, tuple[str, str]]:
    """Return the title and the description of each file in the list in docs/README.md."""
    text = (Path(settings.BASE_DIR) / "docs" / "README.md").read_text(encoding="utf-8")
    return {file: (title, description) for title, file, description in ROW.findall(text)}
