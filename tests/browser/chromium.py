"""A real Chromium, and visitors that record every error a page causes."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    Request,
    expect,
    sync_playwright,
)

Scheme = Literal["light", "dark"]
# The shell needs a third less CPU time, because it has no windows.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
INSTALL_HINT = "Install it (Debian: apt-get install chromium-headless-shell) and run the command again."
PATIENCE_MS = 30_000
expect.set_options(timeout=PATIENCE_MS)
SMALLEST, SMALL, LARGE = 320, 360, 1280
HEIGHT = 900


def find() -> str | None:
    """Return the system's Chromium, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def running(path: str) -> Iterator[Browser]:
    """Run a Chromium within the block."""
    with sync_playwright() as playwright:
        # Its own sandbox needs privileges that containers lack. Without a GPU, it would simulate one.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


@dataclass
class Visitor:
    """A visitor with a browser; `complaints` are errors that pages must not cause."""

    site: str
    context: BrowserContext
    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    def watch(self) -> None:
        """Record script errors, console messages, dialogs, and requests to other hosts."""
        self.context.on("console", self.record_message)
        self.context.on("weberror", lambda error: self.complaints.append(f"script: {error.error}"))
        self.context.on("dialog", self.refuse)
        self.context.on("request", self.record_request)

    def record_message(self, message: ConsoleMessage) -> None:
        # The browser logs every error response, which is not an error of the page.
        is_status = message.text.startswith("Failed to load resource: the server responded")
        if message.type in ("error", "warning") and not is_status:
            self.complaints.append(f"console: {message.text}")

    def refuse(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def record_request(self, request: Request) -> None:
        self.requests.append(request)
        if not request.url.startswith((self.site, "data:", "about:")):
            self.complaints.append(f"request: {request.url}")

    def open(self, path: str) -> int:
        """Open a path or a full address; return its status."""
        response = self.page.goto(path if path.startswith("http") else self.site + path)
        return response.status if response else 0

    def press(self, name: str) -> None:
        """Press a button and wait for the next page."""
        with self.page.expect_navigation():
            self.page.get_by_role("button", name=name, exact=True).click()

    def follow(self, name: str) -> None:
        """Follow a link of the page."""
        with self.page.expect_navigation():
            self.page.get_by_role("link", name=name, exact=True).first.click()

    def reveal(self, name: str) -> None:
        """Open a form that is folded behind a button."""
        folded = self.page.locator("details.reveal:not([open]) > summary", has_text=name)
        if folded.count():
            folded.click()

    def fill(self, **fields: str) -> None:
        """Fill in fields of the page's form by their names."""
        for name, text in fields.items():
            self.page.locator(f"main [name={name}]").fill(text)

    def log_in(self, name: str, password: str) -> None:
        self.open("/accounts/login/")
        self.fill(login=name, password=password)
        self.press("Log in")

    def forget_files(self) -> None:
        """Load all scripts and styles again with every page from now on, as at a first visit."""
        session = self.context.new_cdp_session(self.page)
        session.send("Network.enable")
        session.send("Network.setCacheDisabled", {"cacheDisabled": True})

    def heading(self) -> str:
        return self.page.locator("h1").inner_text()

    def resize(self, width: int) -> None:
        self.page.set_viewport_size({"width": width, "height": HEIGHT})

    def is_too_wide(self) -> bool:
        """Return whether the page scrolls horizontally."""
        root = "document.documentElement"
        return bool(self.page.evaluate(f"{root}.scrollWidth > {root}.clientWidth"))

    def too_wide(self) -> list[str]:
        """Return what makes the page scroll horizontally: the first element outside it."""
        return [str(self.evaluate(OUTSIDE))] if self.is_too_wide() else []

    def widen_letters(self) -> None:
        """Show text as wide as in the widest common fonts."""
        self.evaluate("document.documentElement.style.letterSpacing = '.04em'")

    def enlarge_resources(self) -> None:
        """Show resources as large as those of real reports, where an actor has millions of mana."""
        cells = "document.querySelectorAll('[aria-labelledby=resources] td')"
        self.evaluate(f"for (const one of {cells}) one.textContent = '12,345,678.9'")

    def unfold(self) -> None:
        """Open all collapsed sections, so that they are checked too."""
        sections = "details.more, details.parts, .fold details"
        self.evaluate(f"for (const one of document.querySelectorAll('{sections}')) one.open = true")

    def end_transitions(self) -> None:
        """Let all colors have their final values. Django's admin changes them slowly even with reduced motion."""
        self.evaluate("for (const one of document.getAnimations()) if (one instanceof CSSTransition) one.finish()")

    def eventually(self, expected: str) -> None:
        """Reload the page until it contains a text."""
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while expected not in (text := self.page.locator("main").inner_text()):
            assert time.monotonic() < deadline, text
            time.sleep(0.2)
            self.page.reload()

    def evaluate(self, script: str) -> Any:
        """Run a script outside the page's Content Security Policy."""
        session = self.context.new_cdp_session(self.page)
        reply = session.send(
            "Runtime.evaluate", {"expression": script, "awaitPromise": True, "returnByValue": True}
        )
        session.detach()
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")


OUTSIDE = """
    [...document.querySelectorAll('body *')].filter((one) =>
        one.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && one.checkVisibility()
        && !one.closest('.scroll, .result-map, pre')).map((one) => one.outerHTML.slice(0, 150))[0]
"""


@contextmanager
def visiting(browser: Browser, site: str) -> Iterator[Visitor]:
    """Open a browser context without cookies for a new visitor."""
    context = browser.new_context(viewport={"width": LARGE, "height": HEIGHT}, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE_MS)
    visitor = Visitor(site, context, context.new_page())
    visitor.watch()
    yield visitor
    context.close()
