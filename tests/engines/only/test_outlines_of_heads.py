"""Outlines on engines that group heads, or read only which values may make a node run."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from ckpt_backends.registry import open_store
from ckpt_cli.core.tasks import is_surely_done
from tests.kit.agents.steps import saver_of
from tests.kit.heads import CHANNELS, some_checkpoint
from tests.kit.servers import mysql_connection

_NUMBER = 1500
_COLUMNS = {
    "checkpoints": "thread_id, checkpoint_id, checkpoint, metadata",
    "checkpoint_blobs": "thread_id, channel, version, type",
}

_DONE: dict[str, Any] = {
    "v": 4,
    "channel_values": {"items": 1},
    "channel_versions": {"items": 3, "__start__": 2, "branch:to:a": 3},
    "versions_seen": {"__input__": {}, "__start__": {"__start__": 1}, "a": {"branch:to:a": 2}},
}
_PARTS: list[dict[str, Any]] = [
    {},
    {"v": 3},
    {"channel_values": {}},
    {"channel_values": None},
    {"channel_values": {"items": 1, "__pregel_tasks": []}},
    {"channel_values": {"items": 1, "__pregel_tasks": [1]}},
    {"channel_values": {"items": 1, "branch:to:a": None}},
    {"channel_versions": {"items": 3, "__start__": None, "branch:to:a": 3}},
    {"channel_versions": {"items": 3, "__other__": 2, "another:one": 3}},
    {"versions_seen": {}},
    {"versions_seen": None},
    {"versions_seen": {"a": {"items": 1}}},
    {"versions_seen": {"a": {"other": 1}}},
    {"channel_values": {}, "versions_seen": {"a": {"items": 1}}},
    {"versions_seen": {"a": None}},
    {"versions_seen": {"__interrupt__": {"items": 1}}},
    {"versions_seen": {"the_interrupt": {"items": 1}}},
]
"""What differs from a head after which nothing runs."""

pytestmark = pytest.mark.engines


def test_postgres_says_of_each_head_what_its_outline_says(postgres_url: str) -> None:
    with saver_of(postgres_url) as saver:
        saver.setup()
    with psycopg.connect(postgres_url) as connection, connection.cursor() as cursor:
        for table, rows in _made():
            query = f"INSERT INTO {table} ({_COLUMNS[table]}) VALUES (%s, %s, %s, %s)"
            cursor.executemany(query.encode(), rows)
    assert _number_of_outlines(postgres_url) < _NUMBER / 2


def test_mysql_says_of_each_head_what_its_outline_says(mysql_url: str) -> None:
    from langgraph.checkpoint.mysql.pymysql import PyMySQLSaver

    with PyMySQLSaver.from_conn_string(mysql_url) as saver:
        saver.setup()
    with mysql_connection(mysql_url) as connection, connection.cursor() as cursor:
        for table, rows in _made():
            query = f"INSERT INTO {table} ({_COLUMNS[table]}, checkpoint_ns_hash)"
            cursor.executemany(f"{query} VALUES (%s, %s, %s, %s, UNHEX(MD5('')))", rows)
        connection.commit()
    assert _number_of_outlines(mysql_url) == _NUMBER


def _made() -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    """The rows of heads: some at random, the others of a few that differ in one part each."""
    chance = random.Random(7)
    bodies = [{**_DONE, **parts} for parts in _PARTS]
    bodies += [json.loads(one.body.data) for one in map(some_checkpoint, [chance] * 9) if one.body]
    heads, blobs = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
    for n in range(_NUMBER):
        body = dict(chance.choice(bodies))
        versions = body["channel_versions"] or {}
        body["channel_versions"] = {
            name: chance.randrange(9) if isinstance(one, int) else one
            for name, one in versions.items()
        }
        source = chance.choice(["loop", "loop", "loop", "input"])
        heads.append((f"t{n}", "head", json.dumps(body), json.dumps({"source": source})))
        if chance.random() < 0.3:
            name, kind = chance.choice(CHANNELS), chance.choice(["null", "empty"])
            version = str(body["channel_versions"].get(name, 1))
            blobs.append((f"t{n}", name, version, kind))
    yield "checkpoints", heads
    yield "checkpoint_blobs", blobs


def _number_of_outlines(url: str) -> int:
    with open_store(url) as store:
        keys = [one.key for n in range(_NUMBER) for one in store.checkpoints(f"t{n}")]
        whole = {one.key: one for one in store.checkpoints_at(keys, body=True, metadata=True)}
        outlines = list(store.outlines_at(keys))
    assert sorted(key for _, alike in outlines for key in alike) == sorted(whole)
    told = set()
    for outline, alike in outlines:
        says = is_surely_done(outline)
        told.add(says)
        assert {is_surely_done(whole[key]) for key in alike} == {says}, outline
    assert told == {True, False}
    return len(outlines)
