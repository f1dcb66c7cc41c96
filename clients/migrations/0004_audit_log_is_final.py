"""Prevent every change and deletion of audit log events with a trigger."""

from django.db import migrations

CREATE = """
CREATE FUNCTION clients_auditevent_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'events of the audit log are never changed or deleted' USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER clients_auditevent_guard BEFORE UPDATE OR DELETE ON clients_auditevent
    FOR EACH STATEMENT EXECUTE FUNCTION clients_auditevent_guard();
"""
DROP = "DROP TRIGGER clients_auditevent_guard ON clients_auditevent; DROP FUNCTION clients_auditevent_guard();"


class Migration(migrations.Migration):
    dependencies = [("clients", "0003_audit_log")]
    operations = [migrations.RunSQL(CREATE, DROP)]
