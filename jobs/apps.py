"""What happens once when the jobs' code is loaded."""

from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"

    def ready(self) -> None:
        """Add the queue's gauges to the service's metrics."""
        from jobs.metrics import QueueCollector
        from simservice.metrics import REGISTRY

        REGISTRY.register(QueueCollector())
