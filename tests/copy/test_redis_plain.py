"""`ckpt copy` from hashes and from langgraph-checkpoint-plainredis."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import langgraph_checkpoint_plainredis
import pytest
import redis

from ckpt_backends.model import Kind
from ckpt_backends.registry import open_store
from ckpt_backends.rows import Row
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.testing.scenarios.running import ScenarioRun
from ckpt_backends.transfer.copying import records_of_rows
from ckpt_backends.transfer.form import CannotHold
from tests.copy.round_trip import check_told
from tests.kit.savers.redis import PlainRedisSaver

SCENES = ("interrupt-nested", "fanout-send", "chat")


@pytest.fixture(params=["redis-hash", "redis-hash-colon", "redis-plain"])
def rows(request: pytest.FixtureRequest, redis_url: str) -> Iterator[dict[str, list[Row]]]:
    """The rows of some threads of a layout; the last one is `a:b`."""
    with redis.Redis.from_url(redis_url) as client:
        saver: Any = PlainRedisSaver(client, "$" if request.param == "redis-hash" else ":")
        if request.param == "redis-plain":
            saver = langgraph_checkpoint_plainredis.RedisSaver(url=redis_url)
        with quiet():
            for name in (*SCENES, "a:b"):
                one = SCENARIOS.get(name) or SCENARIOS["interrupt-nested"]
                config = one.thread_config()
                config["configurable"] = {**config["configurable"], "thread_id": name}
                one.drive(ScenarioRun(one.build(saver), config, {}))
    with open_store(redis_url) as store:
        assert store.describe().layout == request.param
        yield {name: list(store.rows(name)) for name in (*SCENES, "a:b")}


def test_records_are_what_the_store_tells(
    rows: dict[str, list[Row]], redis_url: str, request: pytest.FixtureRequest
) -> None:
    with open_store(redis_url) as store:
        layout = store.describe().layout
        for name, some in rows.items():
            records = list(records_of_rows(layout, some))
            check_told(store, name, records)
            blobs = {key for key, _ in store.blobs(name)}
            assert len(blobs) == sum(one.kind is Kind.VALUE for one in records)


def test_values_come_before_checkpoints(rows: dict[str, list[Row]], redis_url: str) -> None:
    with open_store(redis_url) as store:
        layout = store.describe().layout
    kinds = [one.kind for one in records_of_rows(layout, rows["chat"])]
    assert kinds == sorted(kinds, key=lambda kind: kind is Kind.CHECKPOINT)


def plain_rows(redis_url: str) -> list[Row]:
    """The rows of a thread of langgraph-checkpoint-plainredis."""
    saver = langgraph_checkpoint_plainredis.RedisSaver(url=redis_url)
    with quiet():
        one = SCENARIOS["chat"]
        one.drive(ScenarioRun(one.build(saver), one.thread_config(), {}))
    with open_store(redis_url) as store:
        return list(store.rows("chat"))


def test_archives_with_the_registry_at_another_place_are_read(redis_url: str) -> None:
    rows = plain_rows(redis_url)
    early = [one for one in rows if one.table in {"checkpoint_blobs", "writes"}]
    late = [one for one in rows if one not in early]
    expected = list(records_of_rows("redis-plain", rows))
    assert list(records_of_rows("redis-plain", [*early, *late])) == expected


def test_a_head_that_others_would_not_find_is_refused(redis_url: str) -> None:
    rows = plain_rows(redis_url)
    (at,) = [number for number, one in enumerate(rows) if one.table == "idx"]
    cells = dict(rows[at].cells)
    oldest = min(name for name in cells if name.startswith("."))
    rows[at] = Row("idx", {**cells, oldest: "1000"})
    with pytest.raises(CannotHold, match="stored last"):
        list(records_of_rows("redis-plain", rows))


def test_a_value_of_no_namespace_is_refused(redis_url: str) -> None:
    rows = plain_rows(redis_url)
    for number, one in enumerate(rows):
        if one.table == "threads":
            ((own, told),) = ((n, c) for n, c in one.cells.items() if n.startswith("."))
            assert isinstance(told, bytes)
            other = json.dumps({**json.loads(told), "ns": "other"}).encode()
            rows[number] = Row("threads", {**one.cells, own: other})
    with pytest.raises(CannotHold, match="no namespace"):
        list(records_of_rows("redis-plain", rows))


def test_an_unknown_field_of_a_hash_is_refused() -> None:
    cells = {"key": "checkpoint$t$$1", "type": "hash", "expires_at": None}
    known = {".type": b"msgpack", ".checkpoint": b"\x80", ".metadata": b"{}"}
    (found,) = records_of_rows("redis-hash", [Row("checkpoint", {**cells, **known})])
    assert found.kind is Kind.CHECKPOINT
    with pytest.raises(CannotHold, match="'tenant'"):
        list(
            records_of_rows("redis-hash", [Row("checkpoint", {**cells, **known, ".tenant": b"a"})])
        )
