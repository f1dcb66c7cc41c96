"""Let the database's clock set the times of creation."""

from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    phase = "expand"

    dependencies = [("webhooks", "0005_endpoint_failing")]

    operations = [
        migrations.AlterField(
            model_name="endpoint",
            name="created_at",
            field=models.DateTimeField(db_default=Now(), editable=False),
        ),
    ]
