"""The part of a Celery worker that receives messages, changed to retry slowly if Redis answers with an error."""

import logging
import time

from celery.worker import consumer
from celery.worker.state import maybe_shutdown

logger = logging.getLogger(__name__)

ERROR_PAUSE_SECONDS = 10.0
STOP_CHECK_SECONDS = 0.2


class Consumer(consumer.Consumer):
    """Reconnects only every few seconds while Redis answers with errors, such as READONLY or MISCONF.

    Celery would connect again at once, without success, and log each attempt.
    """

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """Log the error and close the connection. After an error reply, wait before the next attempt.

        Raises WorkerShutdown or WorkerTerminate if the worker is asked to stop.
        """
        super().on_connection_error_after_connected(exc)
        if isinstance(exc, self.channel_errors):  # type: ignore[attr-defined]  # not in the stubs
            logger.warning("Redis refused a request; tasks wait until it accepts requests again: %s", exc)
            _pause()


def _pause() -> None:
    """Wait `ERROR_PAUSE_SECONDS`. Raises WorkerShutdown or WorkerTerminate if the worker is asked to stop."""
    end = time.monotonic() + ERROR_PAUSE_SECONDS
    while time.monotonic() < end:
        maybe_shutdown()
        time.sleep(STOP_CHECK_SECONDS)
