"""The folder in which the workers of one web server share their metrics, if it has several."""

import os
import shutil
import tempfile
from typing import Any

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


def create_if_needed(config: Any) -> None:
    """Create the folder, and remove it when gunicorn ends.

    Otherwise, each scrape would reach one of the workers and report its values only. Call this in gunicorn's main
    process before anything imports prometheus-client, which reads the variable at its import.
    """
    if config.workers == 1 or VARIABLE in os.environ:
        return
    folder = os.environ[VARIABLE] = tempfile.mkdtemp(prefix="simservice-metrics-")
    config.set("on_exit", lambda _arbiter: shutil.rmtree(folder, ignore_errors=True))
