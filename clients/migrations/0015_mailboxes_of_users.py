"""Record the mailboxes of all users who have opened an account."""

from itertools import islice
from typing import Any

from django.db import migrations

from clients.mailboxes import mailbox_of
from simservice.encryption import Purpose, digests

BATCH_ROWS = 1000


def record_mailboxes(apps: Any, _: Any) -> None:
    used = apps.get_model("clients", "UsedMailbox")
    users = apps.get_model("clients", "FirstAccount").objects.values_list("user__email", "user__username")
    rest = users.iterator()
    while batch := list(islice(rest, BATCH_ROWS)):
        mailboxes = [mailbox_of(email or username) for email, username in batch]
        rows = [used(digest=digests(each, purpose=Purpose.MAILBOXES)[0]) for each in mailboxes]
        used.objects.bulk_create(rows, ignore_conflicts=True)


class Migration(migrations.Migration):
    phase = "expand"
    atomic = False

    dependencies = [("clients", "0014_used_mailboxes")]

    operations = [migrations.RunPython(record_mailboxes, migrations.RunPython.noop)]
