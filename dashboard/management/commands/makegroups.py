"""`makegroups`: the groups that staff are put into, with their permissions. Safe to run again and again."""

from typing import Any

from django.contrib.auth.models import Group, Permission
from django.core.management.base import BaseCommand
from django.db import transaction
from django.db.models import Q

APPS = ("billing", "clients", "jobs", "webhooks")
# Beside seeing everything. Facts cannot be edited whatever somebody may: for jobs, builds and entries these are the
# permissions of the actions.
OPERATE = (
    "jobs.change_job",
    "jobs.change_build",
    "billing.add_entry",
    "billing.add_account",
    "billing.change_account",
    "billing.add_plan",
    "billing.change_plan",
    "clients.change_apikey",
    "clients.add_membership",
    "clients.change_membership",
    "clients.delete_membership",
    "webhooks.change_event",
)


class Command(BaseCommand):
    help = "Makes the groups `support` (sees everything) and `operators` (may also act), or brings them up to date."

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        seen = Permission.objects.filter(content_type__app_label__in=APPS, codename__startswith="view_")
        named = Q(pk__in=[])
        for app, codename in (name.split(".") for name in OPERATE):
            named |= Q(content_type__app_label=app, codename=codename)
        acted = Permission.objects.filter(named)
        for name, permissions in {"support": list(seen), "operators": [*seen, *acted]}.items():
            group, _ = Group.objects.get_or_create(name=name)
            group.permissions.set(permissions)
            self.stdout.write(f"{name}: {len(permissions)} permissions")
