"""Let the database's clock set the times of creation."""

from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    phase = "expand"

    dependencies = [("clients", "0015_mailboxes_of_users")]

    operations = [
        migrations.AlterField(
            model_name="client",
            name="created_at",
            field=models.DateTimeField(db_default=Now(), editable=False),
        ),
        migrations.AlterField(
            model_name="apikey",
            name="created_at",
            field=models.DateTimeField(db_default=Now(), editable=False),
        ),
        migrations.AlterField(
            model_name="invitation",
            name="created_at",
            field=models.DateTimeField(db_default=Now(), editable=False),
        ),
    ]
