"""Empties the database after tests with real transactions, about thirty times as fast as Django's `flush`.

`flush` truncates every table, which writes several files for each, and creates all content types and permissions
again.
"""

from django.db import connection

# These depend on the models alone.
KEPT = {"django_migrations", "django_content_type", "auth_permission"}
# The locks wait for transactions that a test left open; without triggers, neither foreign keys nor the rule that
# entries of the ledger stay forbids anything. The role must be a superuser, like that of the tests' own server.
EMPTY = """
DO $$
DECLARE name text;
BEGIN
    LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE;
    SET LOCAL session_replication_role = replica;
    FOREACH name IN ARRAY string_to_array('{tables}', ',') LOOP
        IF pg_relation_size(name::regclass) > 100000 THEN
            EXECUTE 'TRUNCATE ' || name || ' CASCADE';
        ELSE
            EXECUTE 'DELETE FROM ' || name;
        END IF;
    END LOOP;
END $$
"""


def empty_database() -> None:
    """Delete all rows except those that describe the models."""
    names = connection.introspection.django_table_names(only_existing=True, include_views=False)
    tables = ",".join(sorted(set(names) - KEPT))
    with connection.cursor() as cursor:
        cursor.execute(EMPTY.format(tables=tables))
