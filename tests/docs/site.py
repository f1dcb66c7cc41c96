"""Build the site of the documentation with Sphinx: `make docs`.

Every warning is an error, including links to files and headings that do not exist.
"""

import argparse
import shutil
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.docs.guide_runs import ROOT

SITE, PORT = ROOT / "site", 8001


def build(source: Path, target: Path, *, builder: str = "html") -> int:
    """Build the site of a folder with a configuration in `docs`; return the exit status."""
    options = ["--quiet", "--fail-on-warning", "--keep-going", "--jobs", "auto", "--builder", builder]
    command = [
        sys.executable,
        "-m",
        "sphinx",
        *options,
        "--conf-dir",
        str(source / "docs"),
        str(source),
        str(target),
    ]
    status = subprocess.run(command, check=False).returncode
    if status == 0 and builder == "html":
        shutil.copy(target / "README.html", target / "index.html")
    return status


def serve() -> None:
    """Serve the site on this machine until Ctrl-C."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", PORT), handler) as server:
        print(f"http://127.0.0.1:{PORT}")
        server.serve_forever()


def main() -> int:
    """Build the site, or check its links to other sites; return the exit status."""
    parser = argparse.ArgumentParser(description="Build the site of the documentation into site/.")
    parser.add_argument("--serve", action="store_true", help=f"serve it at http://127.0.0.1:{PORT}")
    parser.add_argument("--links", action="store_true", help="check the links to other sites instead")
    options = parser.parse_args()
    if options.links:
        return build(ROOT, SITE / "links", builder="linkcheck")
    status = build(ROOT, SITE)
    if status == 0 and options.serve:
        serve()
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(0)
