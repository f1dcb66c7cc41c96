"""Start-up of the jobs app."""

from django.apps import AppConfig
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from simservice.environment import stop


class JobsConfig(AppConfig):
    name = "jobs"

    def ready(self) -> None:
        """Check the hosts that simulators can reach, and register the metrics."""
        from jobs.metrics import QueueCollector
        from jobs.runs.game_api_proxy import require_public_names
        from simservice.metrics import SERVICE

        try:
            require_public_names(settings.GAME_API_HOSTS)
        except ImproperlyConfigured as error:
            stop([str(error)])
        SERVICE.register(QueueCollector())
