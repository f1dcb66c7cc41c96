"""`makegroups`: create or update the staff groups and their permissions. Safe to repeat."""

from typing import Any

from django.contrib.auth.models import Group, Permission
from django.db import transaction
from django.db.models import Q

from simservice.operations.commands import BaseCommand

APPS = ("billing", "clients", "jobs", "privacy", "webhooks")
# In addition to viewing everything. Jobs, builds, closures and entries are read-only; for them these allow the
# actions.
OPERATOR_PERMISSIONS = (
    "jobs.change_job jobs.change_build jobs.change_closure billing.add_entry billing.add_account "
    "billing.change_account billing.add_plan billing.change_plan clients.change_apikey clients.add_membership "
    "clients.change_membership clients.delete_membership webhooks.change_event privacy.add_accountdeletion"
).split()


class Command(BaseCommand):
    help = "Creates or updates the groups `support` (can view everything) and `operators` (can also run actions)."

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        view = Permission.objects.filter(content_type__app_label__in=APPS, codename__startswith="view_")
        is_operators = Q(pk__in=[])
        for app, codename in (name.split(".") for name in OPERATOR_PERMISSIONS):
            is_operators |= Q(content_type__app_label=app, codename=codename)
        operate = Permission.objects.filter(is_operators)
        for name, permissions in {"support": list(view), "operators": [*view, *operate]}.items():
            group, _ = Group.objects.get_or_create(name=name)
            group.permissions.set(permissions)
            self.stdout.write(f"{name}: {len(permissions)} permissions")
