"""Count the contents of a store with its engine, without any code of `ckpt`."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pymongo
import redis
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument

from tests.dev import FileSaver
from tests.harness import Harness
from tests.harness.langgraph_dev import DevHarness
from tests.harness.mongodb import MongoHarness
from tests.harness.mysql import MySQLHarness
from tests.harness.postgres import PostgresHarness
from tests.harness.redis import PlainRedisHarness, PlainRedisSaverHarness, RedisHarness
from tests.harness.sqlite import SqliteHarness
from tests.harness.three_table import ThreeTableHarness
from tests.servers import mysql_connection
from tests.threetable import connected

CHECKPOINTS, BLOBS, WRITES = "checkpoints", "checkpoint_blobs", "checkpoint_writes"
TABLES = (CHECKPOINTS, BLOBS, WRITES)


@dataclass
class Count:
    """Rows by table, and their contents."""

    rows: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    """Numbers of checkpoints, writes, blobs and bytes."""

    def add(self, table: str, what: str, size: int, rows: int = 1) -> None:
        self.rows[table] += rows
        self.held[what] += rows
        self.held["bytes"] += size

    def minus(self, other: Count) -> Count:
        return Count(self.rows - other.rows, self.held - other.held)


def counted(harness: Harness) -> Count:
    """Return the contents of a store now."""
    found = Count()
    match harness:
        case SqliteHarness():
            _of_sqlite(harness, found)
        case PostgresHarness():
            _of_postgres(harness, found)
        case MySQLHarness():
            _of_mysql(harness, found)
        case ThreeTableHarness():
            _of_three_tables(harness, found)
        case DevHarness():
            _of_files(harness, found)
        case MongoHarness():
            _of_mongodb(harness, found)
        case PlainRedisSaverHarness():
            _of_plain_keys(harness, found)
        case PlainRedisHarness():
            _of_hashes(harness, found)
        case RedisHarness():
            _of_documents(harness, found)
        case _:
            raise TypeError(harness)
    return found


_WHAT = {CHECKPOINTS: "checkpoints", BLOBS: "blobs", WRITES: "writes", "writes": "writes"}


def _of_sqlite(harness: SqliteHarness, found: Count) -> None:
    with closing(sqlite3.connect(harness.path)) as connection:
        for table, size in (
            (CHECKPOINTS, "length(checkpoint) + length(metadata)"),
            ("writes", "length(value)"),
        ):
            query = f"SELECT count(*), coalesce(sum({size}), 0) FROM {table}"
            ((rows, total),) = connection.execute(query)
            found.add(table, _WHAT[table], total, rows)


def _sized(size_of_body: str) -> Iterator[tuple[str, str]]:
    for table in TABLES:
        size = size_of_body if table == CHECKPOINTS else "coalesce(octet_length(`blob`), 0)"
        yield table, f"SELECT count(*), coalesce(sum({size}), 0) FROM {table}"


def _of_postgres(harness: PostgresHarness, found: Count) -> None:
    with psycopg.connect(harness.url) as connection:
        for table, query in _sized("pg_column_size(checkpoint) + pg_column_size(metadata)"):
            ((rows, size),) = connection.execute(query.replace("`", '"').encode()).fetchall()
            found.add(table, _WHAT[table], int(size), rows)


def _of_mysql(harness: MySQLHarness, found: Count) -> None:
    with mysql_connection(harness.url) as connection, connection.cursor() as cursor:
        for table, query in _sized("octet_length(checkpoint) + octet_length(metadata)"):
            cursor.execute(query)
            ((rows, size),) = cursor.fetchall()
            found.add(table, _WHAT[table], int(size), rows)


def _of_three_tables(harness: ThreeTableHarness, found: Count) -> None:
    with connected(harness.url) as execute:
        for table in TABLES:
            # SQLite's length of a BLOB is its number of bytes.
            length = "octet_length" if "://" in harness.url else "length"
            size = "0" if table == CHECKPOINTS else f"{length}(blob_data)"
            query = f"SELECT count(*), coalesce(sum({size}), 0) FROM {table}"
            ((rows, total),) = execute(query, []).fetchall()
            found.add(table, _WHAT[table], int(total), rows)


def _of_files(harness: DevHarness, found: Count) -> None:
    saver = FileSaver(harness.path)
    for namespaces in saver.storage.values():
        for rows in namespaces.values():
            for body, metadata, _ in rows.values():
                found.add(CHECKPOINTS, "checkpoints", len(body[1]) + len(metadata[1]))
    for writes in saver.writes.values():
        for _, _, value, *_ in writes.values():
            found.add(WRITES, "writes", len(value[1]))
    for value in saver.blobs.values():
        found.add(BLOBS, "blobs", len(value[1]))


def _of_mongodb(harness: MongoHarness, found: Count) -> None:
    with pymongo.MongoClient[Any](harness.url) as client:
        database = client.get_default_database()
        for collection in database.list_collection_names():
            table = WRITES if "write" in collection else CHECKPOINTS
            options = CodecOptions(RawBSONDocument)
            for one in database.get_collection(collection, options).find():
                names = ("checkpoint", "checkpoint_data", "metadata")
                parts = ("value",) if table == WRITES else names
                size = sum(_bson_length(one.get(part)) for part in parts)
                found.add(table, _WHAT[table], size)


def _bson_length(value: Any) -> int:
    if isinstance(value, RawBSONDocument):
        return len(value.raw)
    return len(value.encode() if isinstance(value, str) else value or b"")


def _of_documents(harness: RedisHarness, found: Count) -> None:
    with redis.Redis.from_url(harness.url) as client:
        for name in client.scan_iter(count=1000):
            kind = name.partition(b":")[0].decode()
            if not kind.startswith(("checkpoint", "write_")):
                continue
            paths = {
                "checkpoint": ["$.checkpoint", "$.metadata"],
                "checkpoint_write": ["$.blob", "$.value"],
                "checkpoint_blob": ["$.value"],
            }.get(kind)
            if paths is None:
                found.rows[kind] += 1
                continue
            sizes = [client.execute_command("JSON.DEBUG", "MEMORY", name, one) for one in paths]
            what = {"checkpoint": "checkpoints", "checkpoint_write": "writes"}.get(kind, "blobs")
            found.add(kind, what, sum(size[0] for size in sizes if size))


def _of_hashes(harness: PlainRedisHarness, found: Count) -> None:
    with redis.Redis.from_url(harness.url) as client:
        for name in client.scan_iter(count=1000):
            kind = name.partition(harness.separator.encode())[0].decode()
            fields = ("checkpoint", "metadata") if kind == "checkpoint" else ("value",)
            size = sum(client.hstrlen(name, one) for one in fields)
            found.add(kind, "checkpoints" if kind == "checkpoint" else "writes", size)


def _of_plain_keys(harness: PlainRedisSaverHarness, found: Count) -> None:
    with redis.Redis.from_url(harness.url) as client:
        for name in client.scan_iter(count=1000):
            match name.split(b":")[1:2]:
                case [b"cp"]:
                    found.add("checkpoint", "checkpoints", client.strlen(name))
                case [b"blob"]:
                    found.add(BLOBS, "blobs", client.strlen(name))
                case [b"wr"]:
                    values = client.hvals(name)
                    found.rows["writes"] += 1
                    found.held["writes"] += len(values)
                    found.held["bytes"] += sum(map(len, values))
                case [b"threads"]:
                    found.rows["threads"] += client.hlen(name)


def of_plan(answer: Any) -> Counter[str]:
    """Return the sums of what an answer of `ckpt` removes or removed."""
    total: Counter[str] = Counter()
    for one in answer["threads"]:
        for name in ("checkpoints", "writes", "blobs", "bytes"):
            total[name] += one[name]
    return +total
