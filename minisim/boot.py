"""Start of the program from a checkout whose folders cannot be listed.

In a sandbox, the parent folders of the program can be entered but not listed. Python's own finder lists a folder
before it finds anything in it.
"""

import importlib.util
import runpy
import signal
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent


class CheckoutFinder:
    """Finds the modules that minisim imports from the checkout, without listing folders."""

    @staticmethod
    def find_spec(
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG004
        target: ModuleType | None = None,  # noqa: ARG004
    ) -> ModuleSpec | None:
        """Return the location of a module of `minisim` or `simc`, or None for other modules."""
        if name.partition(".")[0] not in ("minisim", "simc"):
            return None
        location = ROOT.joinpath(*name.split("."))
        package = location / "__init__.py"
        if package.is_file():
            return importlib.util.spec_from_file_location(name, package, submodule_search_locations=[str(location)])
        return importlib.util.spec_from_file_location(name, location.with_suffix(".py"))


if __name__ == "__main__":
    # A stop while the modules load ends the program without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.meta_path.insert(0, CheckoutFinder)
    runpy.run_module("minisim", run_name="__main__", alter_sys=True)
