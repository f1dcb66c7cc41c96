"""Remove the addresses of deleted users, which are among the used mailboxes."""

from django.db import migrations


class Migration(migrations.Migration):
    phase = "contract"

    dependencies = [("clients", "0016_times_of_the_database")]

    operations = [
        migrations.RunSQL(
            "INSERT INTO clients_usedmailbox SELECT digest FROM clients_formeraddress ON CONFLICT DO NOTHING",
            migrations.RunSQL.noop,
        ),
        migrations.DeleteModel(name="FormerAddress"),
    ]
