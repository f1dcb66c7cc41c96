"""Protect the book against every writer, and vacuum its tables early."""

from django.db import migrations

# Entries are never changed, and a hold is resolved once.
TRIGGERS = """
CREATE FUNCTION billing_entry_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'entries of the book are never changed; correct them with further entries'
        USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER billing_entry_guard BEFORE UPDATE OR DELETE ON billing_entry
    FOR EACH STATEMENT EXECUTE FUNCTION billing_entry_guard();

CREATE FUNCTION billing_hold_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'the hold of job % is part of the book', OLD.job_id USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.resolved_at IS NOT NULL THEN
        RAISE EXCEPTION 'the hold of job % has been resolved', OLD.job_id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER billing_hold_guard BEFORE UPDATE OR DELETE ON billing_hold
    FOR EACH ROW EXECUTE FUNCTION billing_hold_guard();
"""
# The free space lets settlements change rows in place, without touching an index.
VACUUM = """
ALTER TABLE billing_balance SET (fillfactor = 50,
    autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE billing_grant SET (fillfactor = 80,
    autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE billing_hold SET (fillfactor = 90,
    autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE billing_entry SET (autovacuum_vacuum_insert_scale_factor = 0.05);
"""


class Migration(migrations.Migration):
    initial = True
    dependencies = [("billing", "0001_initial")]
    operations = [migrations.RunSQL(TRIGGERS), migrations.RunSQL(VACUUM)]
