"""Store the signature of each delivery."""

from django.db import migrations, models


class Migration(migrations.Migration):
    phase = "expand"
    dependencies = [("webhooks", "0002_default_client_and_vacuum")]
    operations = [
        migrations.AddField(
            "delivery", "signature", models.CharField(blank=True, db_default="", default="", max_length=300)
        )
    ]
