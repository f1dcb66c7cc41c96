"""Modules that other libraries load if they are installed, although web servers and workers never need them.

`requests` is the HTTP client of the local stack, `yaml` is for a format that the service does not use, and the
others belong to development tools. Together, they use 8 MB in the web server and 2 MB in each worker.
"""

import sys

UNUSED = ("requests", "yaml", "pygments", "greenlet")


def block() -> None:
    """Make imports of these modules raise ImportError in this process, which the libraries handle."""
    for name in UNUSED:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # documented in the import system's reference
