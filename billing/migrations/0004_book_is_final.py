"""Whoever writes, however: entries are never changed, and a hold is resolved once."""

from django.db import migrations

CREATE = """
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
DROP = """
DROP TRIGGER billing_hold_guard ON billing_hold; DROP FUNCTION billing_hold_guard();
DROP TRIGGER billing_entry_guard ON billing_entry; DROP FUNCTION billing_entry_guard();
"""


class Migration(migrations.Migration):
    dependencies = [("billing", "0003_credits")]
    operations = [migrations.RunSQL(CREATE, DROP)]
