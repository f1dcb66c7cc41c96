"""Protect the audit log against every writer, and find users at their login without a scan."""

from django.conf import settings
from django.db import migrations

# Events are deleted only together with their account.
AUDIT_LOG = """
CREATE FUNCTION clients_auditevent_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('simservice.removes_account', true) = 'on' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'events of the audit log are never changed or deleted' USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER clients_auditevent_guard BEFORE UPDATE OR DELETE ON clients_auditevent
    FOR EACH STATEMENT EXECUTE FUNCTION clients_auditevent_guard();
"""
# A login finds the user by name or email address, in any case.
LOGIN = """
CREATE INDEX auth_user_username_upper ON auth_user (UPPER(username));
CREATE INDEX auth_user_email_upper ON auth_user (UPPER(email));
"""


class Migration(migrations.Migration):
    initial = True
    dependencies = [
        ("clients", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [migrations.RunSQL(AUDIT_LOG), migrations.RunSQL(LOGIN)]
