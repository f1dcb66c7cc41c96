"""The site of the documentation."""

import re
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest
from playwright.sync_api import expect

from tests.browser import chromium
from tests.docs.guide_runs import ROOT
from tests.docs.site import build

pytestmark = [pytest.mark.xdist_group("site"), pytest.mark.timeout(180)]
LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
IN_CSS = re.compile(r"(?:url\(|@import )[\"']?((?:https?:)?//[^)\"']+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    assert build(ROOT, target) == 0
    return target


class References(HTMLParser):
    """Collect the ids, links and loaded files of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.ids, self.links, self.loaded = set[str](), set[str](), set[str]()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        self.ids.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        elif tag in LOADING and LOADING[tag] in given:
            self.loaded.add(given[LOADING[tag]])


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, References]:
    return {page: References(page) for page in site.rglob("*.html")}


def test_every_page_of_the_repository_is_in_the_site(pages: dict[Path, References], site: Path) -> None:
    written = {path.relative_to(ROOT).with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert written <= {page.relative_to(site) for page in pages}


def test_every_link_leads_to_a_file_and_a_heading(pages: dict[Path, References]) -> None:
    broken = set()
    for page, references in pages.items():
        for link in references.links | references.loaded:
            path, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", link) or (page.name in {"genindex.html", "search.html"} and not path):
                continue
            target = (page.parent / unquote(path.partition("?")[0])).resolve() if path else page
            known = pages[target].ids if target in pages else {anchor}
            if not target.is_file() or (anchor and unquote(anchor) not in known):
                broken.add(f"{page.name}: {link}")
    assert broken == set()


def test_pages_load_nothing_from_elsewhere(pages: dict[Path, References], site: Path) -> None:
    loaded = {url for references in pages.values() for url in references.loaded}
    styles = {url for path in site.rglob("*.css") for url in IN_CSS.findall(path.read_text(encoding="utf-8"))}
    assert {url for url in loaded if re.match(r"(?:https?:)?//", url)} | styles == set()


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_search_finds_a_page_without_other_hosts(address: str) -> None:
    path = chromium.find()
    if path is None:
        pytest.skip(f"Chromium is not installed. {chromium.INSTALL_HINT}")
    with chromium.running(path) as browser:
        context = browser.new_context()
        visitor = chromium.Visitor(address, context, context.new_page())
        visitor.watch()
        for page in ("/", "/docs/README.html", "/docs/explanation/performance.html", "/search.html?q=seccomp"):
            assert visitor.open(page) == 200
        expect(visitor.page.locator("#search-results")).to_contain_text("Security")
        assert visitor.complaints == []


def test_a_link_that_leads_nowhere_is_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "conf.py", tmp_path / "docs")
    (tmp_path / "README.md").write_text("# Index\n\n[a](#nowhere) [b](missing.md)\n")
    (tmp_path / "docs" / "README.md").write_text("# Page\n")
    assert build(tmp_path, tmp_path / "site") == 1
    reported = capfd.readouterr().err
    assert "nowhere" in reported
    assert "missing.md" in reported
