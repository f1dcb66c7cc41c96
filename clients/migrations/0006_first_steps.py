"""Record the first account of each user, for welcome credits, and who hid the first steps.

Users who already own an account get no welcome credits for another one.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

OWNED = """
    INSERT INTO clients_firstaccount (user_id, account_id)
    SELECT DISTINCT ON (user_id) user_id, account_id FROM clients_membership WHERE role = 'owner' ORDER BY user_id, id
"""


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0008_parallel_slots"),
        ("clients", "0005_login_indexes"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        migrations.AddField("membership", "hides_first_steps", models.BooleanField(default=False, db_default=False)),
        migrations.CreateModel(
            name="FirstAccount",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="first_account",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "account",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="billing.account"
                    ),
                ),
            ],
        ),
        migrations.RunSQL(OWNED, migrations.RunSQL.noop),
    ]
