"""Users are found by name or email address, case aside, on every login: by an index, however many there are."""

from django.conf import settings
from django.db import migrations

CREATE = """
CREATE INDEX auth_user_username_upper ON auth_user (UPPER(username));
CREATE INDEX auth_user_email_upper ON auth_user (UPPER(email));
"""
DROP = "DROP INDEX auth_user_username_upper, auth_user_email_upper;"


class Migration(migrations.Migration):
    dependencies = [
        ("clients", "0004_audit_log_is_final"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [migrations.RunSQL(CREATE, DROP)]
