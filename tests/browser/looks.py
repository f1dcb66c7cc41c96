"""How the components of the style guide look: `python -m tests.browser.looks` records it in looks.json.

Computed styles are compared rather than pictures: they depend neither on the fonts of a machine nor on how a
browser draws, and a difference names the component and the property.
"""

import json
import sys
import tempfile
from pathlib import Path

from tests.browser import chromium
from tests.browser.chromium import Visitor, running, visiting
from tests.stack import running_stack

RECORD = Path(__file__).with_name("looks.json")
# The first look is recorded in full, the others by what differs from it.
WIDTHS = (1280, 360)
SCHEMES = ("light", "dark")
PLAIN = {
    "display": "block",
    "color": "",
    "backgroundColor": "rgba(0, 0, 0, 0)",
    "borderTopColor": "",
    "borderTopWidth": "0px",
    "borderTopLeftRadius": "0px",
    "fontSize": "16px",
    "fontWeight": "400",
    "paddingTop": "0px",
    "paddingLeft": "0px",
    "marginTop": "0px",
    "textAlign": "start",
}
MEASURE = """
    Object.fromEntries([...document.querySelectorAll('.styles-%s [data-look]')].map((one) => {
        const style = getComputedStyle(one);
        return [one.dataset.look, Object.fromEntries(%s.map((name) => [name, style[name]]))];
    }))
"""
Look = dict[str, dict[str, str]]


def looks(visitor: Visitor) -> dict[str, Look]:
    """Return how each component looks, by width and color scheme. The visitor is a member of the staff."""
    found: dict[str, Look] = {}
    for width in WIDTHS:
        visitor.resize(width)
        visitor.open("/styleguide")
        for scheme in SCHEMES:
            for name, values in visitor.evaluate(MEASURE % (scheme, json.dumps(list(PLAIN)))).items():
                look = found.setdefault(name, {})
                usual = PLAIN | next(iter(look.values()), {})
                look[f"{width} {scheme}"] = {key: value for key, value in values.items() if usual[key] != value}
    return found


def main() -> None:
    """Record how the components look."""
    program = chromium.find()
    if program is None:
        sys.exit(f"Chromium was not found. {chromium.INSTALL_HINT}")
    with (
        tempfile.TemporaryDirectory() as folder,
        running_stack(Path(folder)) as stack,
        running(program) as browser,
        visiting(browser, stack.ready["url"]) as operator,
    ):
        operator.log_in(stack.ready["user"], stack.ready["password"])
        lines = [f"{json.dumps(name)}: {json.dumps(look)}" for name, look in looks(operator).items()]
        RECORD.write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main()
