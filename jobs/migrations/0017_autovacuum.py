"""Vacuum the tables of jobs after a number of changes instead of a share of all rows.

By default, autovacuum waits until a fifth of all rows are dead, but a queue's dead rows slow down claims much earlier.
The migration blocks neither reads nor writes.
"""

from django.db import migrations

SET = """
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
"""
RESET = """
ALTER TABLE jobs_job RESET (fillfactor,
    autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor,
    autovacuum_vacuum_insert_threshold, autovacuum_vacuum_insert_scale_factor,
    autovacuum_analyze_threshold, autovacuum_analyze_scale_factor,
    autovacuum_vacuum_cost_limit);
ALTER TABLE jobs_run RESET (fillfactor, autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor);
ALTER TABLE jobs_dailyusage RESET (fillfactor, autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor);
ALTER TABLE jobs_jobevent RESET (autovacuum_vacuum_insert_scale_factor);
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0016_narrower_indexes")]
    operations = [migrations.RunSQL(SET, RESET)]
