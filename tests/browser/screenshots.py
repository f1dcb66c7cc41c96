"""Pictures of every page, light and dark, wide and narrow, for docs/screenshots: `make screenshots`."""

import sys
import tempfile
from pathlib import Path
from typing import cast

from PIL import Image
from playwright.sync_api import Browser

from tests.browser import chromium
from tests.browser.chromium import LARGE, SMALL, Scheme, Visitor, running, visiting
from tests.browser.scene import ENTRANCE, View, at, prepare
from tests.stack import ROOT, Stack, running_stack
from tests.webhooks.receivers import Receiver, make_authority, receiving

FOLDER = ROOT / "docs" / "screenshots"
WIDTHS = {"wide": LARGE, "narrow": SMALL}
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
# Of a long page, what can be looked at; and enough colours for all areas and for soft letters.
HIGHEST = 2400
COLOURS = 128


def main(wanted: list[str]) -> None:
    """Write the pictures of the named pages, of all of them by default."""
    program = chromium.find()
    if program is None:
        sys.exit(f"There is no Chromium. {chromium.HOW}")
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, receiving(make_authority(Path(folder))) as receiver:
        chosen = {
            "SIM_SLOTS": "1",
            "WEBHOOK_ALLOWED_ADDRESSES": receiver.address,
            "WEBHOOK_CA_FILE": str(receiver.ca_file),
        }
        with running_stack(Path(folder) / "stack", **chosen) as stack, running(program) as browser:
            take_all(browser, stack, receiver, wanted)


def take_all(browser: Browser, stack: Stack, receiver: Receiver, wanted: list[str]) -> None:
    """Take the pictures, first as a stranger, then as the demo account's owner."""
    site = stack.ready["url"]
    with visiting(browser, site) as stranger:
        for name, path in ENTRANCE.items():
            take(stranger, at(name, path), wanted)
    with visiting(browser, site) as owner:
        owner.log_in(stack.ready["user"], stack.ready["password"])
        for view in prepare(stack, owner, receiver).views():
            take(owner, view, wanted)


def take(visitor: Visitor, view: View, wanted: list[str]) -> None:
    """Take a page's pictures."""
    if wanted and view.name not in wanted:
        return
    visitor.resize(LARGE)
    view.reach(visitor)
    for scheme in SCHEMES:
        visitor.page.emulate_media(color_scheme=scheme)
        for word, width in WIDTHS.items():
            visitor.resize(width)
            path = FOLDER / f"{view.name}-{word}-{scheme}.png"
            visitor.page.screenshot(path=path, full_page=True)
            make_small(path)


def make_small(path: Path) -> None:
    """Keep the picture's beginning, in the colours that it has most of: a quarter of the bytes."""
    with Image.open(path) as taken:
        shown = taken.convert("RGB").crop((0, 0, taken.width, min(taken.height, HIGHEST)))
    # A picture of three bands has three numbers for each colour.
    counted = cast(list[tuple[int, tuple[int, int, int]]], shown.getcolors(shown.width * shown.height))
    most = [colour for _, colour in sorted(counted, reverse=True)[:COLOURS]]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for colour in most for part in colour])
    shown.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1:])
