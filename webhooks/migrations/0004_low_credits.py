"""Let webhooks get low-credit events."""

from django.db import migrations, models


class Migration(migrations.Migration):
    phase = "expand"
    dependencies = [
        ('webhooks', '0003_delivery_signature'),
    ]

    operations = [
        migrations.AddField(
            model_name='endpoint',
            name='reports_low_credits',
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
