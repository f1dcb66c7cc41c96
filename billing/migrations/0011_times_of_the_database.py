"""Let the database's clock set the times of creation."""

from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    phase = "expand"

    dependencies = [("billing", "0010_account_shares_inputs")]

    operations = [
        migrations.AlterField(
            model_name="account",
            name="created_at",
            field=models.DateTimeField(db_default=Now(), editable=False),
        ),
    ]
