"""The Django app of this package, which registers the deployment checks."""

from django.apps import AppConfig


class SimserviceConfig(AppConfig):
    name = "simservice"

    def ready(self) -> None:
        from simservice import checks  # noqa: F401 - registers the checks
