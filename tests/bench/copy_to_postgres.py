"""Copy a SQLite store to tables of PostgreSQL, with libraries only: copy_to_postgres.py FILE URL

It does what a copy has to do: it converts bodies to JSON, with the values that PostgreSQL's saver
keeps there, stores the other values apart, each version once, and reads all rows back to compare
them with those that were sent.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from itertools import islice
from typing import Any

import ormsgpack
import psycopg

_THREADS = 200
"""Threads of a transaction."""
_KEY = {"thread_id": "text", "checkpoint_ns": "text"}
_AT = {**_KEY, "checkpoint_id": "text"}
_VALUE = {"type": "text", "blob": "bytea"}
_CHECKPOINT = {**_AT, "parent_checkpoint_id": "text", "checkpoint": "jsonb", "metadata": "jsonb"}
_TASK = {"task_id": "text", "idx": "int4", "task_path": "text", "channel": "text"}
TABLES = {
    "checkpoint_blobs": ({**_KEY, "channel": "text", "version": "text", **_VALUE}, 4),
    "checkpoint_writes": ({**_AT, **_TASK, **_VALUE}, 5),
    "checkpoints": (_CHECKPOINT, 3),
}
"""The columns of each table with their types, and how many of them identify a row."""
_PLAIN = (str, int, float, bool, type(None))
_OPTION = ormsgpack.OPT_NON_STR_KEYS

Rows = list[tuple[Any, ...]]


def main(source: str, target: str) -> None:
    reading, writing = sqlite3.connect(source), psycopg.connect(target, autocommit=True)
    threads = (one for (one,) in reading.execute("SELECT DISTINCT thread_id FROM checkpoints"))
    while some := list(islice(threads, _THREADS)):
        sent = _converted(reading, some)
        with writing.transaction(), writing.cursor() as cursor:
            for table, (columns, _) in TABLES.items():
                to = f"{table} ({', '.join(columns)})"
                with cursor.copy(f"COPY {to} FROM STDIN (FORMAT BINARY)".encode()) as copy:
                    copy.set_types([*columns.values()])
                    for row in sent[table]:
                        copy.write_row(row)
        for table, (columns, of_key) in TABLES.items():
            query = f"SELECT {', '.join(columns)} FROM {table} WHERE thread_id = ANY(%s)"
            found = writing.cursor(binary=True).execute(query.encode(), [some])
            stored = {row[:of_key]: row for row in found}
            assert stored == {row[:of_key]: row for row in sent[table]}


def _converted(reading: sqlite3.Connection, threads: list[str]) -> dict[str, Rows]:
    """Return the rows of some threads for each table."""
    among = f"WHERE thread_id IN ({', '.join('?' * len(threads))})"
    select = f"SELECT {', '.join(_AT)}"
    query = f"{select}, {', '.join(_TASK)}, type, value FROM writes {among}"
    blobs: dict[tuple[str, ...], tuple[str, bytes]] = {}
    sent = {"checkpoint_writes": reading.execute(query, threads).fetchall()}
    query = f"{select}, parent_checkpoint_id, checkpoint, metadata FROM checkpoints {among}"
    sent["checkpoints"] = [_parted(row, blobs) for row in reading.execute(query, threads)]
    return {**sent, "checkpoint_blobs": [(*key, *value) for key, value in blobs.items()]}


def _parted(
    row: tuple[Any, ...], blobs: dict[tuple[str, ...], tuple[str, bytes]]
) -> tuple[Any, ...]:
    """Return a row of `checkpoints`, and add the values that are stored apart."""
    thread_id, ns, checkpoint_id, parent, data, metadata = row
    body = ormsgpack.unpackb(data, ext_hook=ormsgpack.Ext, option=_OPTION)
    kept, versions = {}, body["channel_versions"]
    for channel, value in body["channel_values"].items():
        if isinstance(value, _PLAIN):
            kept[channel] = value
        elif (key := (thread_id, ns, channel, versions[channel])) not in blobs:
            is_bytes = isinstance(value, bytes)
            packed = value if is_bytes else ormsgpack.packb(value, option=_OPTION)
            blobs[key] = "bytes" if is_bytes else "msgpack", packed
    body["channel_values"] = kept
    return thread_id, ns, checkpoint_id, parent, body, json.loads(metadata)


if __name__ == "__main__":
    main(*sys.argv[1:])
