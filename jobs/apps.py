"""Start-up of the jobs app."""

from importlib import import_module

from django.apps import AppConfig
from django.conf import settings


class JobsConfig(AppConfig):
    name = "jobs"

    def ready(self) -> None:
        """Check the hosts that simulators can reach; register metrics and the HTTP responses of errors."""
        from jobs.metrics import QueueCollector
        from jobs.runs.game_api_proxy import require_public_names
        from simservice.metrics import REGISTRY

        require_public_names(settings.GAME_API_HOSTS)
        REGISTRY.register(QueueCollector())
        import_module("jobs.api.errors")
