"""The sequence behind time-ordered ids (simservice/ids.py)."""

from django.db import migrations


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [
        migrations.RunSQL(
            "CREATE SEQUENCE simservice_ids AS bigint CYCLE MAXVALUE 9000000000000000000 CACHE 1",
            "DROP SEQUENCE simservice_ids",
        ),
    ]
