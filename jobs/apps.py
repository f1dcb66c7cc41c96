"""Start-up of the jobs app."""

from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"

    def ready(self) -> None:
        """Register the metrics."""
        from jobs.operations.metrics import QueueCollector
        from simservice.telemetry.metrics import SERVICE

        SERVICE.register(QueueCollector())
