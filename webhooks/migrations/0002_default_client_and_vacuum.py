"""Refuse endpoints of default clients, and vacuum the tables of webhooks early, with room for changes in place."""

from django.db import migrations

# Whichever of the two rows changes, the reference to a client that is not a default one must stay valid.
NOT_THE_DEFAULT_CLIENT = """
ALTER TABLE clients_client ADD CONSTRAINT client_with_kind UNIQUE (id, is_default);
ALTER TABLE webhooks_endpoint ADD COLUMN client_is_default boolean GENERATED ALWAYS AS (false) STORED;
ALTER TABLE webhooks_endpoint ADD CONSTRAINT endpoint_not_of_default_client
    FOREIGN KEY (client_id, client_is_default) REFERENCES clients_client (id, is_default);
"""
VACUUM = """
ALTER TABLE webhooks_event SET (
    autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0.005,
    autovacuum_analyze_threshold = 5000, autovacuum_analyze_scale_factor = 0.01,
    autovacuum_vacuum_cost_limit = 1000);
ALTER TABLE webhooks_delivery SET (fillfactor = 90,
    autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE webhooks_endpoint SET (fillfactor = 50,
    autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.02);
"""


class Migration(migrations.Migration):
    initial = True
    dependencies = [("webhooks", "0001_initial")]
    operations = [migrations.RunSQL(NOT_THE_DEFAULT_CLIENT), migrations.RunSQL(VACUUM)]
