"""Vacuum the tables of webhooks early, and leave room for changes in place. Blocks neither reads nor writes."""

from django.db import migrations

SET = """
ALTER TABLE webhooks_event SET (
    autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0.005,
    autovacuum_analyze_threshold = 5000, autovacuum_analyze_scale_factor = 0.01,
    autovacuum_vacuum_cost_limit = 1000);
ALTER TABLE webhooks_delivery SET (fillfactor = 90,
    autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE webhooks_endpoint SET (fillfactor = 50,
    autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.02);
"""
RESET = """
ALTER TABLE webhooks_event RESET (
    autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor,
    autovacuum_analyze_threshold, autovacuum_analyze_scale_factor,
    autovacuum_vacuum_cost_limit);
ALTER TABLE webhooks_delivery RESET (fillfactor, autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor);
ALTER TABLE webhooks_endpoint RESET (fillfactor, autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor);
"""


class Migration(migrations.Migration):
    dependencies = [("webhooks", "0002_not_the_default_client")]
    operations = [migrations.RunSQL(SET, RESET)]
