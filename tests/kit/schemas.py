"""What a database says about its tables, to compare those of `ckpt` with those of a saver."""

from typing import Any

import psycopg


def postgres_schema(url: str, migrations: str, schema: str = "public") -> list[Any]:
    """Return everything that the catalogue says about the tables of a schema, and the migrations
    that a table names.
    """
    queries = (
        "SELECT table_name, ordinal_position, column_name, data_type, is_nullable, column_default"
        " FROM information_schema.columns WHERE table_schema = %(schema)s ORDER BY 1, 2",
        "SELECT replace(indexdef, quote_ident(%(schema)s) || '.', '') FROM pg_indexes"
        " WHERE schemaname = %(schema)s ORDER BY 1",
        "SELECT conname, contype, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE connamespace = quote_ident(%(schema)s)::regnamespace ORDER BY 1",
    )
    with psycopg.connect(url) as connection:
        found = [connection.execute(one, {"schema": schema}).fetchall() for one in queries]
        query = f'SELECT v FROM "{schema}".{migrations} ORDER BY v'.encode()
        return [*found, connection.execute(query).fetchall()]
