"""Accessibility checks with axe-core, downloaded once from npm and verified by its hash."""

import hashlib
import json
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from tests.browser.chromium import Visitor

VERSION = "4.14.1"
SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
DOWNLOADED = Path(__file__).resolve().parents[2] / ".venv" / f"axe-core-{VERSION}.min.js"
SECONDS = 120


class Missing(Exception):
    """axe-core is not available; the message says why and what to do."""


def source() -> str:
    """Return axe-core's script. Raises Missing."""
    if not DOWNLOADED.exists():
        DOWNLOADED.write_bytes(fetch())
    return DOWNLOADED.read_text()


def fetch() -> bytes:
    """Fetch axe-core's script with npm. Raises Missing."""
    npm = shutil.which("npm")
    if npm is None:
        raise Missing("There is no npm to fetch axe-core. Install it (Debian and Ubuntu: apt-get install npm).")
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", f"axe-core@{VERSION}", "--silent", "--pack-destination", folder]
        try:
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=SECONDS)
        except (subprocess.SubprocessError, OSError) as error:
            raise Missing(f"npm could not fetch axe-core: {error}") from None
        return unpack(next(Path(folder).glob("*.tgz")))


def unpack(packed: Path) -> bytes:
    """Return the script in npm's archive. Raises ValueError if its hash differs."""
    with tarfile.open(packed) as archive:
        member = archive.extractfile("package/axe.min.js")
        script = member.read() if member else b""
    if hashlib.sha256(script).hexdigest() != SHA256:
        raise ValueError(f"axe-core {VERSION} is not what it was.")
    return script


def violations(visitor: Visitor) -> list[str]:
    """Return axe-core's findings for the current page."""
    return run(visitor, {})


def visual_violations(visitor: Visitor) -> list[str]:
    """Return findings of the rules that depend on colors and widths, for a second pass."""
    return run(visitor, {"runOnly": {"type": "rule", "values": VISUAL_RULES}})


def run(visitor: Visitor, options: dict[str, Any]) -> list[str]:
    """Run axe-core on a page without its frames, which contain users' content."""
    visitor.evaluate(f"window.axe || ({{}}, (() => {{ {source()} }})()), 0")
    violations_found = json.loads(visitor.evaluate(RUN % json.dumps({**options, **QUICK})))
    return [f"{violation['id']}: {violation['help']}: {violation['nodes']}" for violation in violations_found]


QUICK = {"iframes": False, "preload": False, "resultTypes": ["violations"]}
VISUAL_RULES = ["color-contrast", "link-in-text-block", "scrollable-region-focusable", "target-size"]
RUN = """
    axe.run(%s).then(found => JSON.stringify(found.violations.map(
        one => ({id: one.id, help: one.help, nodes: one.nodes.slice(0, 3).map(node => node.html.slice(0, 200))}))))
"""
