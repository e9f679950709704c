"""Values that PostgreSQL's saver stores apart from checkpoints, and damage to them."""

from typing import Any

import psycopg

BROKEN = b"\xdd\xff\xff\xff\xff"
"""Bytes that no serializer reads."""


def rows(url: str) -> list[Any]:
    with psycopg.connect(url) as db:
        return db.execute(
            "SELECT channel, version, type, blob FROM checkpoint_blobs ORDER BY 1, 2"
        ).fetchall()


def versions(url: str, channel: str) -> list[str]:
    """Return the versions of a channel that have a value, oldest first."""
    return [version for name, version, *_ in rows(url) if name == channel]


def execute(url: str, sql: str, *values: object) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        assert db.execute(sql.encode(), values).rowcount


def delete(url: str, channel: str, version: str) -> None:
    where = "channel = %s AND version = %s"
    execute(url, f"DELETE FROM checkpoint_blobs WHERE {where}", channel, version)


def replace(url: str, channel: str, version: str, data: bytes = BROKEN) -> None:
    where = "channel = %s AND version = %s"
    execute(url, f"UPDATE checkpoint_blobs SET blob = %s WHERE {where}", data, channel, version)
