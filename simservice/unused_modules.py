"""Modules that other libraries load if they are installed, although web servers and workers do not need them.

`requests` is the HTTP client of the local stack, `yaml` is for a format that the service does not use, and
`pygments` and `greenlet` belong to development tools. Together, they use 8 MB in the web server and 2 MB in each
worker. OpenTelemetry, which sends traces with `requests`, would also be loaded by the Redis client.
"""

import os
import sys

UNUSED = ("yaml", "pygments", "greenlet")
FOR_TRACES = ("requests", "opentelemetry")


def block() -> None:
    """Make imports of these modules raise ImportError in this process, which the libraries handle."""
    is_traced = bool(os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"))
    for name in UNUSED if is_traced else UNUSED + FOR_TRACES:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # documented in the import system's reference
