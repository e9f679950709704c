"""`ckpt copy` to and from the documents of langgraph-checkpoint-redis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from langgraph.checkpoint.redis import RedisSaver

from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.testing.scenarios.running import ScenarioRun
from tests.copy.round_trip import (
    check_round_trip,
)
from tests.plugin import redis_of_its_own

SCENES = (
    "chat",
    "interrupt-nested",
    "fanout-send",
    "subgraph-stateful",
    "delta-often",
    "two\nlines",
)


@pytest.fixture(scope="module")
def source(request: pytest.FixtureRequest) -> Iterator[str]:
    """A Redis with threads of RedisSaver."""
    with redis_of_its_own(modules=True) as server:
        with quiet(), RedisSaver.from_conn_string(server.url) as saver:
            saver.setup()
            for name in SCENES:
                one = SCENARIOS[name]
                one.drive(ScenarioRun(one.build(saver), one.thread_config(), {}))
        yield server.url


@pytest.fixture
def target(redis_stack_url: str) -> str:
    """A Redis with the indexes of RedisSaver, and no thread."""
    with RedisSaver.from_conn_string(redis_stack_url) as saver:
        saver.setup()
    return f"{redis_stack_url}?layout=redis"


def client(url: str) -> Any:
    return redis.Redis.from_url(url.partition("?")[0], protocol=2)


def test_what_is_read_back_equals_what_was_sent(source: str, target: str) -> None:
    assert len(check_round_trip(source, target, "redis")) == len(SCENES)


def test_the_documents_are_those_of_the_saver(source: str, target: str) -> None:
    check_round_trip(source, target, "redis")
    here, there = (contents(url) for url in (source, target))
    assert here == there


def contents(url: str) -> dict[bytes, Any]:
    return {}
