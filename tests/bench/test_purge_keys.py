"""Purging a tenth of the threads of a Redis or a MongoDB, beside the official loop and the raw
removal of the same. Prints only.

They are fewer than on the SQL engines: a Redis of 100,000 threads with a search index takes minutes
to fill, and SecantusDB, which stands for MongoDB unless CKPT_TEST_MONGODB_URL names one, reads a
whole collection for each look at a thread.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymongo
import pytest
import redis

from tests.backends.agent import graph_of
from tests.bench.make_redis import TEMPLATE, copy, keys_of
from tests.bench.measure import Command, Figure, Runs
from tests.bench.test_purge import CKPT, OFFICIAL, WORDS, measured, report
from tests.plugin import redis_of_its_own
from tests.redis_savers import PlainRedisSaver, SeeingRedisSaver

pytestmark = pytest.mark.bench

OFFICIAL_REDIS = """
import sys
from langgraph.checkpoint.redis import RedisSaver
with RedisSaver.from_conn_string(sys.argv[1]) as saver:
    saver.setup()
    for n in range(int(sys.argv[2])):
        saver.delete_thread(f"old-{n}")
"""
RAW_REDIS = """
import redis, sys
client = redis.Redis.from_url(sys.argv[1], protocol=2)
pipe = client.pipeline(transaction=False)
names = list(client.scan_iter("*old-*", count=5000))
for start in range(0, len(names), 1000):
    pipe.unlink(*names[start:start + 1000])
    pipe.execute()
"""
OFFICIAL_MONGODB = """
import pymongo, sys
from langgraph.checkpoint.mongodb import MongoDBSaver
saver = MongoDBSaver(pymongo.MongoClient(sys.argv[1]), sys.argv[1].rpartition("/")[2])
for n in range(int(sys.argv[2])):
    saver.delete_thread(f"old-{n}")
"""
RAW_MONGODB = """
import pymongo, sys
database = pymongo.MongoClient(sys.argv[1])[sys.argv[1].rpartition("/")[2]]
found = database.checkpoints.aggregate([{"$group": {"_id": "$thread_id"}}])
names = [row["_id"] for row in found if row["_id"].startswith("old-")]
for start in range(0, len(names), 100):
    for collection in (database.checkpoint_writes, database.checkpoints):
        collection.delete_many({"thread_id": {"$in": names[start:start + 100]}})
"""
REDIS, MONGODB = 20_000, 500
"""Threads, unless the environment says otherwise; a tenth of them is old."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A store of which the old threads can be made again."""

    url: str
    threads: int
    refill: Callable[[], None]
    left: Callable[[], int]
    """How many keys or documents of old threads there are."""
    rows: int
    """How many there are at first."""


def names(kind: str, number: int) -> Iterator[str]:
    return (f"{kind}-{n}" for n in range(number))


@pytest.fixture(scope="module", params=["redis", "redis-hash"])
def on_redis(request: pytest.FixtureRequest) -> Iterator[Filled]:
    threads = int(os.environ.get("CKPT_BENCH_PURGE_REDIS_THREADS", REDIS))
    with (
        redis_of_its_own(modules=request.param == "redis") as server,
        redis.Redis.from_url(server.url, protocol=2) as client,
    ):
        if request.param == "redis":
            with SeeingRedisSaver.from_conn_string(server.url) as saver:
                saver.setup()
                _run(saver)
        else:
            _run(PlainRedisSaver(client))
        keys = keys_of(client)
        client.delete(*(name for name, _, _ in keys))
        copy(client, keys, names("new", threads - threads // 10))
        yield Filled(
            server.url,
            threads,
            lambda: copy(client, keys, names("old", threads // 10)),
            lambda: sum(1 for _ in client.scan_iter("*old-*", count=5000)),
            threads // 10 * len(keys),
        )


@pytest.fixture(scope="module")
def on_mongodb(mongodb_server: Any) -> Iterator[Filled]:
    from langgraph.checkpoint.mongodb import MongoDBSaver

    from tests.servers import mongodb_database

    threads = int(os.environ.get("CKPT_BENCH_PURGE_MONGODB_THREADS", MONGODB))
    with mongodb_database(mongodb_server) as url:
        client: Any = pymongo.MongoClient(url)
        database = client[url.rpartition("/")[2]]
        saver = MongoDBSaver(client, database.name)
        _run(saver)
        collections = [database.checkpoints, database.checkpoint_writes]
        like = [list(one.find({}, {"_id": 0})) for one in collections]
        saver.delete_thread(TEMPLATE)

        def fill(kind: str, number: int) -> None:
            for collection, documents in zip(collections, like, strict=True):
                collection.insert_many(
                    {**one, "thread_id": name} for name in names(kind, number) for one in documents
                )

        fill("new", threads - threads // 10)
        yield Filled(
            url,
            threads,
            lambda: fill("old", threads // 10),
            lambda: sum(one.count_documents({"thread_id": _OLD}) for one in collections),
            threads // 10 * sum(map(len, like)),
        )
        client.close()


_OLD = {"$gte": "old-", "$lt": "old."}


def _run(saver: Any) -> None:
    graph_of(saver).invoke({"items": ["in"]}, {"configurable": {"thread_id": TEMPLATE}})


def measure(filled: Filled, raw: str, official: str | None) -> Mapping[str, Runs]:
    """Each way on the same store."""
    old = str(filled.threads // 10)
    purge: list[str | Path] = [CKPT, "-s", filled.url, "purge", *WORDS]
    commands: dict[str, Command] = {
        "purge": purge,
        "purge, whatever they wait for": [*purge, "--include-interrupted", "--include-pending"],
        "find and DELETE": [sys.executable, "-c", raw, filled.url],
    }
    if official is not None:
        commands[OFFICIAL] = [sys.executable, "-c", official, filled.url, old]
    return measured(commands, filled.refill, filled.left)


def test_redis(on_redis: Filled, request: pytest.FixtureRequest, figures: list[Figure]) -> None:
    name = request.node.callspec.params["on_redis"]
    # The plain savers of hashes have no way to delete a thread.
    official = OFFICIAL_REDIS if name == "redis" else None
    found = measure(on_redis, RAW_REDIS, official)
    what = f"{name}, {on_redis.threads // 10} of {on_redis.threads}"
    report(figures, what, found, on_redis.rows)


def test_mongodb(on_mongodb: Filled, figures: list[Figure]) -> None:
    found = measure(on_mongodb, RAW_MONGODB, OFFICIAL_MONGODB)
    what = f"MongoDB, {on_mongodb.threads // 10} of {on_mongodb.threads}"
    report(figures, what, found, on_mongodb.rows)
