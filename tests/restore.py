"""Puts the stores of the fixtures that need a server into an empty one."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from pathlib import Path
from typing import Any


def restore(dump: Path, url: str) -> None:
    """A dump of `fixtures/make/postgres.py`: statements, each COPY with its rows after it."""
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
    """The same for a dump of `fixtures/make/js`: statements and rows as JSON lines."""
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
    """Put the documents of a MongoDB fixture into a database, as its saver had them.

    `suffix` goes behind the names of the collections, `prefix` before the ids of the threads.
    """
    import pymongo
    from bson import decode_all
    from langgraph.checkpoint.mongodb import MongoDBSaver

    client: Any = pymongo.MongoClient(url)
    database = client[url.rpartition("/")[2]]
    names = [f"checkpoints{suffix}", f"checkpoint_writes{suffix}"]
    if "0.2.70" not in str(path):  # langgraph-checkpoint-mongodb 0.1.0 makes no indexes
        saver: Any = MongoDBSaver
        saver(client, database.name, *names)
    for one in decode_all(gzip.decompress(path.read_bytes())):
        one["thread_id"] = prefix + one["thread_id"]
        database[names["task_id" in one]].insert_one(one)
    client.close()


def restore_keys(path: Path, url: str) -> None:
    """Put the keys of a Redis fixture into an empty server, with the newest saver's indexes."""
    import redis
    from langgraph.checkpoint.redis import RedisSaver

    with RedisSaver.from_conn_string(url) as saver:
        saver.setup()
    with redis.Redis.from_url(url) as client, client.pipeline(transaction=False) as pipe:
        for line in gzip.decompress(path.read_bytes()).splitlines():
            one = json.loads(line)
            match one["kind"]:
                case "json":
                    pipe.execute_command("JSON.SET", one["key"], "$", one["value"])
                case "zset":
                    pipe.zadd(one["key"], one["value"])
                case "string":
                    pipe.set(one["key"], one["value"])
        pipe.execute()
