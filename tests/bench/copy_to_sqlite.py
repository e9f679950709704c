"""Copy a store in PostgreSQL to tables of SQLite, with libraries only: copy_to_sqlite.py URL FILE

It does what a copy has to do: it puts the values that are stored apart into the bodies, converts
these to msgpack, and reads all rows back to compare them with those that were sent.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from typing import Any

import ormsgpack
import psycopg

_THREADS = 200
"""Threads of a transaction."""
_AT = "thread_id, checkpoint_ns, checkpoint_id"
_TASK = "task_id, task_path, idx, channel, type"
TABLES = {
    "writes": f"{_AT}, {_TASK}, value",
    "checkpoints": f"{_AT}, parent_checkpoint_id, type, checkpoint, metadata",
}
_OPTION = ormsgpack.OPT_NON_STR_KEYS


def main(source: str, target: str) -> None:
    reading, writing = psycopg.connect(source), sqlite3.connect(target)
    with reading.cursor("threads", binary=True) as cursor:
        cursor.execute("SELECT DISTINCT thread_id FROM checkpoints")
        while some := [one for (one,) in cursor.fetchmany(_THREADS)]:
            sent = _converted(reading, some)
            with writing:
                for table, columns in TABLES.items():
                    marks = ", ".join("?" * (columns.count(",") + 1))
                    insert = f"INSERT INTO {table} ({columns}) VALUES ({marks})"
                    writing.executemany(insert, sent[table])
            among = f"WHERE thread_id IN ({', '.join('?' * len(some))})"
            for table, columns in TABLES.items():
                found = writing.execute(f"SELECT {columns} FROM {table} {among}", some).fetchall()
                assert sorted(found) == sorted(sent[table])


def _converted(
    reading: psycopg.Connection[Any], threads: list[str]
) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of some threads for each table."""

    def rows(columns: str, table: str) -> list[tuple[Any, ...]]:
        query = f"SELECT {columns} FROM {table} WHERE thread_id = ANY(%s)"
        return reading.cursor(binary=True).execute(query.encode(), [threads]).fetchall()

    values = rows("thread_id, checkpoint_ns, channel, version, type, blob", "checkpoint_blobs")
    blobs = {tuple(key): _value(tag, data) for *key, tag, data in values if tag != "empty"}
    checkpoints = rows(f"{_AT}, parent_checkpoint_id, checkpoint, metadata", "checkpoints")
    return {
        "writes": rows(f"{_AT}, {_TASK}, blob", "checkpoint_writes"),
        "checkpoints": [_joined(row, blobs) for row in checkpoints],
    }


def _value(tag: str, data: bytes) -> Any:
    if tag == "msgpack":
        return ormsgpack.unpackb(data, ext_hook=ormsgpack.Ext, option=_OPTION)
    return {"null": None, "bytes": data}[tag]


def _joined(row: tuple[Any, ...], blobs: dict[tuple[str, ...], Any]) -> tuple[Any, ...]:
    """Return a row of `checkpoints` with all values in its body."""
    thread_id, ns, checkpoint_id, parent, body, metadata = row
    values = body["channel_values"]
    for channel, version in body["channel_versions"].items():
        if (key := (thread_id, ns, channel, version)) in blobs:
            values[channel] = blobs[key]
    data = ormsgpack.packb(body, option=_OPTION)
    return thread_id, ns, checkpoint_id, parent, "msgpack", data, json.dumps(metadata).encode()


if __name__ == "__main__":
    main(*sys.argv[1:])
