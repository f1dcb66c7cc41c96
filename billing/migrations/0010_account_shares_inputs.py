"""Add whether share links show the profiles and logs of an account's jobs. They do by default, as before."""

from django.db import migrations, models


class Migration(migrations.Migration):
    phase = "expand"

    dependencies = [("billing", "0009_plan_retention_and_storage")]

    operations = [
        migrations.AddField(
            model_name="account",
            name="shares_inputs",
            field=models.BooleanField(db_default=True, default=True),
        ),
    ]
