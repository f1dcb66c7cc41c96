"""What loading a page costs a visitor whose browser has nothing of the site yet: time, bytes and moving content.

`make loading` prints the figures of public pages beside their aims, each the median of several visits. The time
depends on the machine, so no test asserts it. ARGS names other addresses.
"""

import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser

from tests.browser import chromium
from tests.browser.chromium import Visitor, running, visiting
from tests.stack import Stack, running_stack

VISITS = 7
FIRST_PAINT_MS = 300
# Bytes with all scripts, styles and pictures.
LARGEST = 150 * 1024
# On a busy machine, the browser at times reports a shift of 0.003 that nothing on the page causes.
LARGEST_SHIFT = 0.005


@dataclass(frozen=True, kw_only=True)
class Loading:
    """`first_paint` in ms, `transferred` in bytes with all scripts and styles, `shift` as layout shift score.

    `moved` names the elements that moved.
    """

    first_paint: float
    transferred: int
    shift: float
    moved: str


def figures(visitor: Visitor) -> Loading:
    """Return the figures of the page that the visitor has just opened, from the browser's own records."""
    first_paint, transferred, shift, moved = visitor.evaluate(FIGURES)
    return Loading(first_paint=first_paint, transferred=transferred, shift=shift, moved=moved)


def faults(visitor: Visitor) -> list[str]:
    """Return what is wrong with the loading of the page just opened; the time depends on the machine."""
    loaded = figures(visitor)
    shifts = [f"content moves while it loads ({loaded.shift:.3f}): {loaded.moved}"] * (loaded.shift > LARGEST_SHIFT)
    return shifts + [f"{loaded.transferred} bytes are loaded"] * (loaded.transferred > LARGEST)


# The records of everything since the page was opened; layout shifts are reported in a task of their own.
FIGURES = """
    new Promise((done) => {
        let shift = 0, tries = 100;
        const moved = new Set();
        const observer = new PerformanceObserver((list) => {
            for (const entry of list.getEntries()) {
                shift += entry.value;
                for (const {node} of entry.sources) moved.add(node?.nodeName + '.' + (node?.className ?? ''));
            }
        });
        observer.observe({type: 'layout-shift', buffered: true});
        const figures = () => {
            // A busy browser records the paint later.
            const paint = performance.getEntriesByName('first-contentful-paint')[0];
            if (!paint && --tries) {
                setTimeout(figures, 100);
                return;
            }
            const page = performance.getEntriesByType('navigation');
            const files = performance.getEntriesByType('resource');
            const transferred = [...page, ...files].reduce((sum, entry) => sum + entry.transferSize, 0);
            done([paint ? paint.startTime : performance.now(), transferred, shift, [...moved].join(' ')]);
        };
        requestAnimationFrame(() => setTimeout(figures, 100));
    })
"""


def _first_visit(browser: Browser, url: str) -> Loading:
    with visiting(browser, url) as visitor:
        assert visitor.open(url) == 200, url
        return figures(visitor)


def main(urls: list[str]) -> None:
    """Print a line for each address; without addresses, for public pages of a stack of its own."""
    program = chromium.find()
    if program is None:
        sys.exit(f"Chromium was not found. {chromium.INSTALL_HINT}")
    with ExitStack() as opened:
        if not urls:
            folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
            urls = list(_public_pages(opened.enter_context(running_stack(folder))))
        browser = opened.enter_context(running(program))
        sys.stdout.write(f"{'Aim':<60}{FIRST_PAINT_MS:6} ms {LARGEST / 1024:6.0f} KB  shift 0.000\n")
        for url in urls:
            visits = [_first_visit(browser, url) for _ in range(VISITS)]
            paint = statistics.median(visit.first_paint for visit in visits)
            size = visits[-1].transferred / 1024
            shift = max(visit.shift for visit in visits)
            sys.stdout.write(f"{url:<60}{paint:6.0f} ms {size:6.0f} KB  shift {shift:.3f}\n")


def _public_pages(stack: Stack) -> Iterator[str]:
    """Yield the addresses of public pages, and of the share page of a job that has ended."""
    job = stack.submit()
    stack.wait_for_end(job)
    yield stack.job(job)["links"]["share"]
    for path in ("/", "/example", "/docs", "/docs/guides", "/accounts/login/"):
        yield stack.ready["url"] + path


if __name__ == "__main__":
    main(sys.argv[1:])
