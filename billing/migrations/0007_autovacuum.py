"""Let settlements change holds without touching an index, and vacuum balances and holds early.

No query uses the index of open holds. It is dropped concurrently, and the settings block neither reads nor writes.
The migration is not atomic; if it is interrupted, run it again, in either direction.
"""

from django.contrib.postgres.operations import RemoveIndexConcurrently
from django.db import migrations

SET = """
ALTER TABLE billing_balance SET (fillfactor = 50,
    autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE billing_grant SET (fillfactor = 80,
    autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE billing_hold SET (fillfactor = 90,
    autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE billing_entry SET (autovacuum_vacuum_insert_scale_factor = 0.05);
"""
RESET = """
ALTER TABLE billing_balance RESET (fillfactor, autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor);
ALTER TABLE billing_grant RESET (fillfactor, autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor);
ALTER TABLE billing_hold RESET (fillfactor, autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor);
ALTER TABLE billing_entry RESET (autovacuum_vacuum_insert_scale_factor);
"""


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("billing", "0006_grant_reasons_and_pools")]

    operations = [
        # A concurrent drop waits for all older transactions, such as a backup.
        migrations.RunSQL("SET lock_timeout = 0", "RESET lock_timeout"),
        RemoveIndexConcurrently(model_name="hold", name="hold_open"),
        # In reverse, an interrupted CREATE INDEX CONCURRENTLY leaves an invalid index.
        migrations.RunSQL(migrations.RunSQL.noop, "DROP INDEX CONCURRENTLY IF EXISTS hold_open"),
        migrations.RunSQL("RESET lock_timeout", "SET lock_timeout = 0"),
        migrations.RunSQL(SET, RESET),
    ]
