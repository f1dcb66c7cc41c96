"""Add the mailboxes that have opened an account, with those of deleted users."""

from django.db import migrations, models


class Migration(migrations.Migration):
    phase = "expand"

    dependencies = [("clients", "0013_links_replaced")]

    operations = [
        migrations.CreateModel(
            name="UsedMailbox",
            fields=[("digest", models.CharField(max_length=64, primary_key=True, serialize=False))],
            options={"verbose_name_plural": "used mailboxes"},
        ),
        migrations.AddField(
            model_name="firstaccount",
            name="mailbox_was_used",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.RunSQL(
            "INSERT INTO clients_usedmailbox SELECT digest FROM clients_formeraddress ON CONFLICT DO NOTHING",
            migrations.RunSQL.noop,
        ),
    ]
