"""Stores with one thread per scenario, for time travel."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import pytest

from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.official import ScenarioStore
from ckpt_backends.testing.trials import FEW, NAMES, PLAIN, SAMPLE
from tests.kit.harness import (
    dynamodb,
    langgraph_dev,
    mongodb,
    mysql,
    postgres,
    redis,
    sqlite,
    valkey,
)
from tests.kit.opening import empty_store

Filled = ScenarioStore
__all__ = ["FEW", "HARNESSES", "NAMES", "PLAIN", "SAMPLE", "Filled", "tiered"]


def tiered(names: Iterable[str], by_default: Collection[str]) -> list[Any]:
    """Return names of threads as parameters; those that are not tested by default are marked."""
    return [
        pytest.param(name, marks=() if name in by_default else pytest.mark.engines)
        for name in names
    ]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Hide the warnings of the library about types that were not registered."""
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


HARNESSES: dict[str, type[Harness]] = {
    "sqlite": sqlite.SqliteHarness,
    "dev": langgraph_dev.DevHarness,
    "postgres": postgres.PostgresHarness,
    "mysql": mysql.MySQLHarness,
    "mongodb": mongodb.MongoHarness,
    "redis": redis.RedisHarness,
    "plain_redis": redis.PlainRedisHarness,
    "plain_redis_saver": redis.PlainRedisSaverHarness,
    "dynamodb": dynamodb.DynamoDbHarness,
    "valkey": valkey.ValkeyHarness,
}
"""The layouts in which a thread can be copied, so that each trial has its own."""


def _filled(name: str) -> Any:
    @pytest.fixture(scope="session", name=f"{name}_filled")
    def fixture(
        request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[Filled]:
        folder = tmp_path_factory.mktemp(f"travel-{name}")
        with empty_store(HARNESSES[name], request, folder) as harness:
            yield Filled(harness)

    return fixture


sqlite_filled = _filled("sqlite")
dev_filled = _filled("dev")
postgres_filled = _filled("postgres")
mysql_filled = _filled("mysql")
mongodb_filled = _filled("mongodb")
redis_filled = _filled("redis")
plain_redis_filled = _filled("plain_redis")
plain_redis_saver_filled = _filled("plain_redis_saver")
dynamodb_filled = _filled("dynamodb")
valkey_filled = _filled("valkey")
