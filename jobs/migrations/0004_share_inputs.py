"""Let each job hide its profile and its logs on its share link."""

from django.db import migrations, models


class Migration(migrations.Migration):
    phase = "expand"
    dependencies = [("jobs", "0003_console_indexes")]

    operations = [
        migrations.AddField("job", "shares_inputs", models.BooleanField(default=True, db_default=True)),
    ]
