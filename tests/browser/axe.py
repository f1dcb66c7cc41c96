"""Accessibility checks with axe-core, from npm."""

import json
from typing import Any

from tests.browser.chromium import Visitor
from tests.npm import Package

AXE = Package(
    name="axe-core",
    version="4.14.1",
    sha256="e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745",
)


def source() -> str:
    """Return axe-core's script. Raises Missing."""
    return (AXE.folder() / "axe.min.js").read_text()


def violations(visitor: Visitor, part: str = "") -> list[str]:
    """Return axe-core's findings for the current page, or for the part with a selector."""
    return run(visitor, {}, part)


def visual_violations(visitor: Visitor, part: str = "") -> list[str]:
    """Return findings of the rules that depend on colors and widths, for a second pass."""
    return run(visitor, {"runOnly": {"type": "rule", "values": VISUAL_RULES}}, part)


def run(visitor: Visitor, options: dict[str, Any], part: str) -> list[str]:
    """Run axe-core on a page without its frames, which contain users' content."""
    if not visitor.evaluate("'axe' in window"):
        visitor.evaluate(f"(() => {{ {source()} }})()")
    context = json.dumps(part) if part else "document"
    violations_found = json.loads(visitor.evaluate(RUN % (context, json.dumps({**options, **QUICK}))))
    return [f"{violation['id']}: {violation['help']}: {violation['nodes']}" for violation in violations_found]


QUICK = {"iframes": False, "preload": False, "resultTypes": ["violations"], "selectors": False}
VISUAL_RULES = ["color-contrast", "link-in-text-block", "scrollable-region-focusable", "target-size"]
RUN = """
    axe.run(%s, %s).then(found => JSON.stringify(found.violations.map(
        one => ({id: one.id, help: one.help, nodes: one.nodes.slice(0, 3).map(node => node.html.slice(0, 200))}))))
"""
