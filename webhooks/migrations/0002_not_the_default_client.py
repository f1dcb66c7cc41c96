"""Whoever writes, however: an account's built-in client has no webhook (specification, Authentication 2).

A reference to a client that is not the built-in one can be had by nobody else, whichever of the two rows changes.
"""

from django.db import migrations

CREATE = """
ALTER TABLE clients_client ADD CONSTRAINT client_with_kind UNIQUE (id, is_default);
ALTER TABLE webhooks_endpoint ADD COLUMN client_is_default boolean GENERATED ALWAYS AS (false) STORED;
ALTER TABLE webhooks_endpoint ADD CONSTRAINT endpoint_not_of_default_client
    FOREIGN KEY (client_id, client_is_default) REFERENCES clients_client (id, is_default);
"""
DROP = """
ALTER TABLE webhooks_endpoint DROP CONSTRAINT endpoint_not_of_default_client;
ALTER TABLE webhooks_endpoint DROP COLUMN client_is_default;
ALTER TABLE clients_client DROP CONSTRAINT client_with_kind;
"""


class Migration(migrations.Migration):
    dependencies = [("webhooks", "0001_initial"), ("clients", "0001_initial")]
    operations = [migrations.RunSQL(CREATE, DROP)]
