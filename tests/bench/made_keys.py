"""Redis, MongoDB and DynamoDB stores that are measured."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pymongo
import redis

from tests.backends.agent import graph_of
from tests.bench.declared import Made
from tests.bench.make_postgres import build
from tests.bench.make_redis import (
    STEPS,
    TEMPLATE,
    copy,
    fill_documents,
    fill_hashes,
    keys_of,
    name_of,
)
from tests.bench.stores import Stores
from tests.redis_savers import PlainRedisSaver, SeeingRedisSaver
from tests.servers import mongodb_database, start_redis

MONGODB, DYNAMODB = "MongoDB (SecantusDB)", "DynamoDB (moto)"
"""The engines with what stands in for them, unless an own server is named."""
EACH = 100
"""Checkpoints of a thread in MongoDB and DynamoDB."""
OLD = {"$gte": "old-", "$lt": "old."}
_REGION = "eu-central-1"
_TABLE = "ckpt-bench"
_BATCH = 25
"""Items that DynamoDB takes at once."""


def named(kind: str, variable: str) -> str:
    """Return the name of an engine; without its stand-in if another server is given."""
    return kind.partition(" (")[0] if os.environ.get(variable) else kind


def on_redis(*, modules: bool) -> Callable[[Stores], AbstractContextManager[Made]]:
    """Return the maker of a Redis of documents, or of hashes."""

    @contextmanager
    def make(stores: Stores) -> Iterator[Made]:
        server = start_redis(modules=modules)
        try:
            (fill_documents if modules else fill_hashes)(server.url, stores.size.servers)
            number = stores.size.servers
            facts = {"threads": str(number), "checkpoints": str(number * STEPS)}
            yield Made(_redis_name(modules), server.url, {**facts, "waiting": name_of(0)})
        finally:
            server.stop()

    return make


def small_on_redis(*, modules: bool) -> Callable[[Stores], AbstractContextManager[Made]]:
    """Return the maker of a Redis of small threads, of which the old can be made again."""

    @contextmanager
    def make(stores: Stores) -> Iterator[Made]:
        server, number = start_redis(modules=modules), stores.size.purged_keys
        try:
            with redis.Redis.from_url(server.url, protocol=2) as client:
                if modules:
                    with SeeingRedisSaver.from_conn_string(server.url) as saver:
                        saver.setup()
                        _talk(saver)
                else:
                    _talk(PlainRedisSaver(client))
                keys = keys_of(client)
                client.delete(*(name for name, _, _ in keys))
                copy(client, keys, _names("new", number - number // 10))
                facts = {"threads": str(number), "old": "old-*", "count": str(number // 10)}
                made = Made(_redis_name(modules), server.url, facts)

                @contextmanager
                def scratch() -> Iterator[Made]:
                    copy(client, keys, _names("old", number // 10))
                    yield made

                yield Made(made.engine, made.url, facts, scratch)
        finally:
            server.stop()

    return make


def _redis_name(modules: bool) -> str:
    return "Redis (documents)" if modules else "Redis (hashes)"


def _names(kind: str, number: int) -> Iterator[str]:
    return (f"{kind}-{n}" for n in range(number))


def _talk(saver: Any) -> None:
    graph_of(saver).invoke({"items": ["in"]}, {"configurable": {"thread_id": TEMPLATE}})


def _run(saver: Any) -> None:
    config: Any = {"configurable": {"thread_id": TEMPLATE}, "recursion_limit": EACH}
    build(saver, EACH - 2, True).invoke({"turns": 0}, config)


def _on_mongodb(url: str, run: Callable[[Any], None]) -> Callable[[Iterable[str]], None]:
    """Run a thread with the official saver, remove it, and return what makes copies of it."""
    from langgraph.checkpoint.mongodb import MongoDBSaver

    client: Any = pymongo.MongoClient(url)
    database = client[url.rpartition("/")[2]]
    saver = MongoDBSaver(client, database.name)
    run(saver)
    collections = [database.checkpoints, database.checkpoint_writes]
    like = [list(one.find({}, {"_id": 0})) for one in collections]
    saver.delete_thread(TEMPLATE)

    def fill(names: Iterable[str]) -> None:
        for name in names:
            for collection, documents in zip(collections, like, strict=True):
                collection.insert_many({**one, "thread_id": name} for one in documents)

    return fill


@contextmanager
def mongodb(stores: Stores) -> Iterator[Made]:
    with mongodb_database(stores.server("mongodb")) as url:
        number = stores.size.documents
        _on_mongodb(url, _run)(map(name_of, range(number)))
        facts = {"threads": str(number), "waiting": name_of(0)}
        yield Made(named(MONGODB, "CKPT_TEST_MONGODB_URL"), url, facts)


@contextmanager
def small_on_mongodb(stores: Stores) -> Iterator[Made]:
    """Few threads: the server reads a whole collection for each look at a thread."""
    number = stores.size.documents * 10
    with mongodb_database(stores.server("mongodb")) as url:
        fill = _on_mongodb(url, _talk)
        fill(_names("new", number - number // 10))
        engine = named(MONGODB, "CKPT_TEST_MONGODB_URL")
        facts = {"threads": str(number), "old": "old-*", "count": str(number // 10)}

        @contextmanager
        def scratch() -> Iterator[Made]:
            fill(_names("old", number // 10))
            yield Made(engine, url, facts)

        yield Made(engine, url, facts, scratch)


@contextmanager
def dynamodb(stores: Stores) -> Iterator[Made]:
    import boto3
    from langgraph_checkpoint_aws import DynamoDBSaver

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        os.environ.setdefault(name, "testing")
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    endpoint = stores.server("dynamodb").url
    client = boto3.client("dynamodb", region_name=_REGION, endpoint_url=endpoint)
    kinds = {"PK": "HASH", "SK": "RANGE"}
    client.create_table(
        TableName=_TABLE,
        KeySchema=[{"AttributeName": one, "KeyType": kind} for one, kind in kinds.items()],
        AttributeDefinitions=[{"AttributeName": one, "AttributeType": "S"} for one in kinds],
        BillingMode="PAY_PER_REQUEST",
    )
    _run(DynamoDBSaver(table_name=_TABLE, region_name=_REGION, endpoint_url=endpoint))
    like = client.scan(TableName=_TABLE)["Items"]
    number = stores.size.documents
    for thread in map(name_of, range(number)):
        requests = [{"PutRequest": {"Item": _renamed(item, thread)}} for item in like]
        for start in range(0, len(requests), _BATCH):
            client.batch_write_item(RequestItems={_TABLE: requests[start : start + _BATCH]})
    for item in like:
        client.delete_item(TableName=_TABLE, Key={name: item[name] for name in kinds})
    facts = {"threads": str(number), "waiting": name_of(0), "endpoint": endpoint}
    engine = named(DYNAMODB, "CKPT_TEST_DYNAMODB_URL")
    yield Made(engine, f"dynamodb://{_TABLE}?region={_REGION}&endpoint={endpoint}", facts)


def _renamed(item: Any, thread: str) -> Any:
    """Return an item of another thread: its id stands in keys and in other texts."""
    if isinstance(item, dict):
        return {name: _renamed(value, thread) for name, value in item.items()}
    if isinstance(item, list):
        return [_renamed(value, thread) for value in item]
    return item.replace(TEMPLATE, thread) if isinstance(item, str) else item
