"""Whoever writes, however: a job that has ended never leaves its status, and attempts never count down."""

from django.db import migrations

CREATE = """
CREATE FUNCTION jobs_job_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.status IN ('completed', 'failed', 'cancelled', 'timed_out') AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'job % has ended as % and cannot become %', OLD.id, OLD.status, NEW.status
            USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.attempt < OLD.attempt THEN
        RAISE EXCEPTION 'the attempts of job % cannot count down', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER jobs_job_guard BEFORE UPDATE OF status, attempt ON jobs_job
    FOR EACH ROW EXECUTE FUNCTION jobs_job_guard();
"""
DROP = "DROP TRIGGER jobs_job_guard ON jobs_job; DROP FUNCTION jobs_job_guard();"


class Migration(migrations.Migration):
    dependencies = [("jobs", "0001_initial")]
    operations = [migrations.RunSQL(CREATE, DROP)]
