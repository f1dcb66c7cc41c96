"""The Django app of this package, which registers the deployment checks and the messages of forms."""

from django.apps import AppConfig


class SimserviceConfig(AppConfig):
    name = "simservice"

    def ready(self) -> None:
        from simservice.web import form_messages

        form_messages.replace_messages()
