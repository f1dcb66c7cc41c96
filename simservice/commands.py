"""The base of the service's commands."""

from django.core.management import base


class BaseCommand(base.BaseCommand):
    """A command that starts without Django's system checks, which import all pages and take half a second.

    `doctor` runs them.
    """

    requires_system_checks = ()
