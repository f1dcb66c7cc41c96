"""Remember the email addresses of deleted users who got welcome credits, as keyed hashes."""

from django.db import migrations, models


class Migration(migrations.Migration):
    phase = "expand"

    dependencies = [("clients", "0010_grace_period_ended")]

    operations = [
        migrations.CreateModel(
            name="FormerAddress",
            fields=[("digest", models.CharField(max_length=64, primary_key=True, serialize=False))],
        ),
    ]
