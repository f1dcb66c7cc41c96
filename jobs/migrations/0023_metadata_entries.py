"""Add an index of metadata: one row for each entry of a job's metadata, found by a digest of its name and value.

A trigger adds the rows, so jobs that processes of the previous version accept are found too. To create it, the migration
briefly blocks writes to the jobs table. `0024_earlier_metadata_entries` adds the rows of earlier jobs.
"""

import django.db.models.deletion
from django.db import migrations, models

# NUL, which neither a name nor a value can contain, separates the two.
CREATE_DIGEST = r"""
CREATE FUNCTION jobs_metadata_digest(name text, value text) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN encode(
    substr(sha256(convert_to(name, 'UTF8') || '\x00'::bytea || convert_to(value, 'UTF8')), 1, 16), 'hex'
)::uuid;
"""
DROP_DIGEST = "DROP FUNCTION jobs_metadata_digest"
CREATE_TRIGGER = """
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
DROP_TRIGGER = "DROP TRIGGER jobs_index_metadata ON jobs_job; DROP FUNCTION jobs_index_metadata();"
# Vacuumed often, because an index-only scan of a page that has changed since also reads the table.
VACUUM = """
ALTER TABLE jobs_metadataentry SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.01)
"""
UNCHECKED = {"db_constraint": False, "on_delete": django.db.models.deletion.DO_NOTHING, "related_name": "+"}


class Migration(migrations.Migration):
    dependencies = [("jobs", "0022_job_ranking")]

    operations = [
        migrations.CreateModel(
            name="MetadataEntry",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "account_id",
                        "digest",
                        "job_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("digest", models.UUIDField()),
                ("account", models.ForeignKey(db_index=False, to="billing.account", **UNCHECKED)),
                ("job", models.ForeignKey(db_index=False, to="jobs.job", **UNCHECKED)),
            ],
        ),
        migrations.RunSQL(VACUUM, migrations.RunSQL.noop),
        migrations.RunSQL(CREATE_DIGEST, DROP_DIGEST),
        migrations.RunSQL(CREATE_TRIGGER, DROP_TRIGGER),
    ]
