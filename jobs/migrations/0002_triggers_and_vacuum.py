"""Protect the ends of jobs against every writer, index metadata, and vacuum the tables of jobs early."""

from django.db import migrations

# A job that has ended keeps its status, and attempts never count down.
END_IS_FINAL = """
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
# One row for each entry of a job's metadata, found by a digest of its name and value. NUL, which neither of the two
# can contain, separates them.
METADATA = r"""
CREATE FUNCTION jobs_metadata_digest(name text, value text) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN encode(
    substr(sha256(convert_to(name, 'UTF8') || '\x00'::bytea || convert_to(value, 'UTF8')), 1, 16), 'hex'
)::uuid;

CREATE FUNCTION jobs_index_metadata() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.metadata::text <> '{}' THEN
        INSERT INTO jobs_metadataentry (account_id, digest, job_id)
        SELECT NEW.account_id, jobs_metadata_digest(key, value), NEW.id FROM json_each_text(NEW.metadata::json)
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_index_metadata AFTER INSERT ON jobs_job FOR EACH ROW EXECUTE FUNCTION jobs_index_metadata();
"""
# By default, autovacuum waits until a fifth of all rows are dead, but a queue's dead rows slow down claims much
# earlier. Entries of metadata are vacuumed often, because an index-only scan of a changed page also reads the table.
VACUUM = """
ALTER TABLE jobs_job SET (fillfactor = 90,
    autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0.005,
    autovacuum_vacuum_insert_threshold = 5000, autovacuum_vacuum_insert_scale_factor = 0.02,
    autovacuum_analyze_threshold = 5000, autovacuum_analyze_scale_factor = 0.01,
    autovacuum_vacuum_cost_limit = 1000);
ALTER TABLE jobs_run SET (fillfactor = 90,
    autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE jobs_dailyusage SET (fillfactor = 70,
    autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE jobs_jobevent SET (autovacuum_vacuum_insert_scale_factor = 0.05);
ALTER TABLE jobs_metadataentry SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.01);
"""


class Migration(migrations.Migration):
    initial = True
    dependencies = [("jobs", "0001_initial")]
    operations = [migrations.RunSQL(sql) for sql in (END_IS_FINAL, METADATA, VACUUM)]
