"""The logger of the web server, which writes its lines in the format of all other ones."""

import logging
import os
from typing import Any

from django.utils.log import configure_logging
from gunicorn.glogging import Logger as GunicornLogger

from simservice import settings
from simservice.web import metrics_folder


class Logger(GunicornLogger):
    """Passes gunicorn's lines to the handlers of `settings.LOGGING`."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        # The web server has no earlier place for our code.
        metrics_folder.create_if_needed(cfg)
        logging.captureWarnings(capture=True)
        # Handlers may read the settings, and this process has no application yet.
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "simservice.settings")
        configure_logging("logging.config.dictConfig", settings.LOGGING)
        own: logging.Logger = self.error_log
        own.handlers.clear()
        own.propagate = True
