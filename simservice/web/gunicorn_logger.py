"""The setup of gunicorn's main process: its logger, and the folder in which several workers share their metrics."""

import logging
import os
import shutil
import tempfile
from typing import Any

from django.utils.log import configure_logging
from gunicorn.glogging import Logger as GunicornLogger

from simservice import settings

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


class Logger(GunicornLogger):
    """Passes gunicorn's lines to the handlers of `settings.LOGGING`."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        # The web server has no earlier place for our code.
        create_if_needed(cfg)
        logging.captureWarnings(capture=True)
        # Handlers may read the settings, and this process has no application yet.
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "simservice.settings")
        configure_logging("logging.config.dictConfig", settings.LOGGING)
        own: logging.Logger = self.error_log
        own.handlers.clear()
        own.propagate = True
