"""Puts a dump of `fixtures/make/postgres.py` into an empty PostgreSQL database."""

from __future__ import annotations

import gzip
from pathlib import Path


def restore(dump: Path, url: str) -> None:
    """Run the statements of a dump; each COPY is followed by its rows."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        statement: list[bytes] = []
        lines = iter(gzip.decompress(dump.read_bytes()).splitlines(keepends=True))
        for line in lines:
            statement.append(line)
            if not line.rstrip().endswith(b";"):
                continue
            sql = b"".join(statement)
            statement.clear()
            if not sql.startswith(b"COPY "):
                connection.execute(sql)
                continue
            with connection.cursor().copy(sql) as copy:
                for row in lines:
                    if row == b"\\.\n":
                        break
                    copy.write(row)
        connection.execute("ANALYZE")
