"""Screenshots of every page at three widths, light and dark: `make screenshots` writes them to `screenshots/`.

Their font is Inter, which is close to the fonts of common systems; one screenshot of each page has DejaVu, which is
wider.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import cast

from PIL import Image
from playwright.sync_api import Browser

from tests.browser import chromium, other_views
from tests.browser.chromium import Scheme, Visitor, running, visiting
from tests.browser.site_data import View, prepare
from tests.stack import ROOT, Stack, running_stack
from tests.webhooks.receivers import Receiver, make_authority, receiving

FOLDER = ROOT / "screenshots"
WIDTHS = (360, 768, 1280)
# The pictures of each page by their font, width and colour scheme
LOOKS: list[tuple[str, int, Scheme]] = [
    *(("Inter", width, "light") for width in WIDTHS),
    *(("Inter", width, "dark") for width in WIDTHS),
    ("DejaVu Sans", min(WIDTHS), "light"),
]
FONT_HINT = "{} is not installed (Debian: fonts-inter, fonts-dejavu-core); another font takes its place.\n"
# Results are printed too. A4 paper within margins of 1 cm is about as wide.
PRINTED, PAPER_WIDTH = ("job-stages", "share-stages"), 718
# Pixels; longer pages are cropped.
MAX_HEIGHT = 2400
# The picture of the README is the top of a screenshot.
PICTURED, PICTURE, PICTURE_HEIGHT = (
    "share-stages-1280-light.png",
    ROOT / "docs" / "screenshots" / "result.png",
    1034,
)
# Enough for all areas and for smooth text
COLOURS = 128


def main(names: list[str]) -> None:
    """Write screenshots of the named pages, by default of all pages."""
    program = chromium.find()
    if program is None:
        sys.exit(f"Chromium was not found. {chromium.INSTALL_HINT}")
    for font in sorted({font for font, _, _ in LOOKS}):
        if not _is_installed(font):
            sys.stderr.write(FONT_HINT.format(font))
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, receiving(make_authority(Path(folder))) as receiver:
        data, settings = Path(folder) / "stack", receiver.settings()
        with running_stack(data, SIM_SLOTS="1", **settings) as stack, running(program) as browser:
            _take_all(browser, stack, receiver, names)
            with (
                other_views.failing_site(stack, Path(folder) / "web.log") as (site, views),
                visiting(browser, site) as visitor,
            ):
                for view in views:
                    _take(visitor, view, names)


def _take_all(browser: Browser, stack: Stack, receiver: Receiver, names: list[str]) -> None:
    """Take the screenshots as the demo account's owner, as one of its viewers, and as a visitor."""
    site = stack.ready["url"]
    with visiting(browser, site) as owner:
        owner.log_in(stack.ready["user"], stack.ready["password"])
        data = prepare(stack, owner, receiver)
        for view in data.views():
            _take(owner, view, names)
    other_views.make_viewer(stack)
    with visiting(browser, site) as viewer:
        viewer.log_in(other_views.VIEWER, other_views.PASSWORD)
        for view in other_views.of_a_viewer(data):
            _take(viewer, view, names)
    with visiting(browser, site) as visitor:
        for view in other_views.of_visitors(stack):
            _take(visitor, view, names)


def _take(visitor: Visitor, view: View, names: list[str]) -> None:
    """Take a page's screenshots."""
    if names and view.name not in names:
        return
    visitor.resize(max(WIDTHS))
    view.reach(visitor)
    for font, width, scheme in LOOKS:
        visitor.evaluate(f"document.documentElement.style.setProperty('--sans', '{font}, system-ui')")
        visitor.page.emulate_media(color_scheme=scheme)
        visitor.resize(width)
        suffix = "" if font == "Inter" else "-dejavu"
        path = _photograph(visitor, f"{view.name}-{width}-{scheme}{suffix}")
        if path.name == PICTURED:
            shutil.copy(path, PICTURE)
            _compress(PICTURE, PICTURE_HEIGHT)
    if view.name in PRINTED:
        visitor.page.emulate_media(media="print")
        visitor.resize(PAPER_WIDTH)
        _photograph(visitor, f"{view.name}-print")
        visitor.page.emulate_media(media="screen")


def _photograph(visitor: Visitor, name: str) -> Path:
    """Take a screenshot and return its path."""
    path = FOLDER / f"{name}.png"
    visitor.page.screenshot(path=path, full_page=True)
    _compress(path, MAX_HEIGHT)
    return path


def _is_installed(font: str) -> bool:
    """Return whether fontconfig knows a font; without fontconfig, Chromium has none but its own."""
    program = shutil.which("fc-list")
    return program is not None and bool(subprocess.check_output([program, font]))


def _compress(path: Path, height: int) -> None:
    """Crop a screenshot and reduce it to its most frequent colours, which saves three quarters of its size."""
    with Image.open(path) as full:
        image = full.convert("RGB").crop((0, 0, full.width, min(full.height, height)))
    # In an RGB image a colour is a tuple of three integers.
    counts = cast(list[tuple[int, tuple[int, int, int]]], image.getcolors(image.width * image.height))
    most_frequent = [colour for _, colour in sorted(counts, reverse=True)[:COLOURS]]
    palette = Image.new("P", (1, 1))
    palette.putpalette([band for colour in most_frequent for band in colour])
    image.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1:])
