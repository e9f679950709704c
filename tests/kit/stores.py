"""Restore fixtures that need a server into an empty one, and tell what tables a database has."""

import gzip
import json
from base64 import b64decode
from collections.abc import Collection
from pathlib import Path
from typing import Any

import psycopg


def restore(dump: Path, url: str) -> None:
    """Restore a dump of `fixtures/make/postgres.py`: statements, each COPY followed by its rows."""
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


def restore_rows(dump: Path, url: str) -> None:
    """Restore a dump of `fixtures/make/js`: statements and rows as JSON lines."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for line in gzip.decompress(dump.read_bytes()).splitlines():
            entry = json.loads(line)
            if "sql" in entry:
                connection.execute(entry["sql"].encode())
                continue
            row = dict(entry["row"])
            if row.get("blob") is not None:
                row["blob"] = b64decode(row["blob"])
            marks = ", ".join(["%s"] * len(row))
            insert = f"INSERT INTO {entry['table']} ({', '.join(row)}) VALUES ({marks})"
            connection.execute(insert.encode(), list(row.values()))
        connection.execute("ANALYZE")


def restore_documents(path: Path, url: str, suffix: str = "", prefix: str = "") -> None:
    """Restore a MongoDB fixture, to collections with a suffix and thread ids with a prefix."""
    import pymongo
    from bson import decode_all
    from langgraph.checkpoint.mongodb import MongoDBSaver

    client: Any = pymongo.MongoClient(url)
    database = client[url.rpartition("/")[2]]
    names = [f"checkpoints{suffix}", f"checkpoint_writes{suffix}"]
    if "0.2.70" not in str(path):  # langgraph-checkpoint-mongodb 0.1.0 creates no indexes
        saver: Any = MongoDBSaver
        saver(client, database.name, *names)
    for one in decode_all(gzip.decompress(path.read_bytes())):
        one["thread_id"] = prefix + one["thread_id"]
        database[names["task_id" in one]].insert_one(one)
    client.close()


def restore_javascript_documents(path: Path, url: str, only: Collection[str] | None = None) -> None:
    """Restore the threads, or some, of a LangGraph.js fixture, with its saver's indexes."""
    import pymongo
    from bson import decode_all

    key = {"thread_id": 1, "checkpoint_ns": 1, "checkpoint_id": -1}
    write = {**key, "checkpoint_id": 1, "task_id": 1, "idx": 1}
    with pymongo.MongoClient[Any](url) as client:
        database = client.get_default_database()
        database.checkpoints.create_index(list(key.items()), name="thread_ns_checkpoint_idx")
        name = "thread_ns_checkpoint_task_idx"
        database.checkpoint_writes.create_index(list(write.items()), name=name)
        every = [
            one
            for one in decode_all(gzip.decompress(path.read_bytes()))
            if only is None or one["thread_id"] in only
        ]
        database.checkpoints.insert_many(one for one in every if "task_id" not in one)
        database.checkpoint_writes.insert_many(one for one in every if "task_id" in one)


def restore_keys(path: Path, url: str, only: Collection[str] | None = None) -> None:
    """Restore the threads, or some, of a Redis fixture, with the newest saver's indexes."""
    from langgraph.checkpoint.redis import RedisSaver

    with RedisSaver.from_conn_string(url) as saver:
        saver.setup()
    set_keys(path, url, only)


def restore_javascript_keys(path: Path, url: str, only: Collection[str] | None = None) -> None:
    """Restore the threads, or some, of a LangGraph.js fixture, with its saver's indexes."""
    import redis

    with redis.Redis.from_url(url) as client:
        for index, prefix in JAVASCRIPT_INDEXES.items():
            tags = [word for name in TAGS for word in (f"$.{name}", "AS", name, "TAG")]
            words = ("ON", "JSON", "PREFIX", 1, prefix, "SCHEMA", *tags)
            client.execute_command("FT.CREATE", index, *words)
    set_keys(path, url, only)


JAVASCRIPT_INDEXES = {
    "checkpoints": "checkpoint:",
    "checkpoint_blobs": "checkpoint_blob:",
    "checkpoint_writes": "checkpoint_write:",
}
TAGS = ("thread_id", "checkpoint_ns", "checkpoint_id")
"""The indexed fields that are used; the saver's own indexes have more."""


def set_keys(path: Path, url: str, only: Collection[str] | None = None) -> None:
    import redis

    with redis.Redis.from_url(url) as client, client.pipeline(transaction=False) as pipe:
        for line in gzip.decompress(path.read_bytes()).splitlines():
            one = json.loads(line)
            if only is not None and one["key"].split(":")[1] not in only:
                continue
            match one["kind"]:
                case "json":
                    pipe.execute_command("JSON.SET", one["key"], "$", one["value"])
                case "zset":
                    pipe.zadd(one["key"], one["value"])
                case "string":
                    pipe.set(one["key"], one["value"])
        pipe.execute()


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
