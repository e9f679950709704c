"""Stores with one thread per scenario, for time travel."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from ckpt_backends.testing.harness import Harness
from tests.harness import langgraph_dev, mongodb, mysql, postgres, redis, sqlite
from tests.harness.opening import empty_store
from tests.travel.official import Thread, drive, scenarios, stored_ids

SAMPLE = [
    *("linear", "chat", "fanout-send", "fanout-join", "interrupt-answered", "interrupt-nested"),
    *("command-input", "update-mid", "subgraph-stateful", "delta-rarely", "durability-exit"),
    *('o\'brien "x"', "会话-四十二"),
]
"""Threads that represent the others when testing all of them would take too long."""
FEW = ["linear", "fanout-send", "interrupt-nested", "subgraph-stateful", "delta-rarely"]
"""The fewest threads of different kinds; `tiered` leaves the others to `-m engines`."""
NAMES = [name for name, one in scenarios.SCENARIOS.items() if not one.is_async]
PLAIN = {
    name
    for name in NAMES
    if name.startswith("zoo-") or scenarios.SCENARIOS[name].name == "hostile-id"
}
"""Threads that differ only in what is stored, not in what runs."""

UNSTORABLE = {"zoo-floats", "zoo-text"}
"""JSONB has no NaN, and no text with a NUL; MySQL's JSON has no NaN either."""


def tiered(names: Iterable[str], by_default: Collection[str]) -> list[Any]:
    """Return names of threads as parameters; those that are not tested by default are marked."""
    return [
        pytest.param(name, marks=() if name in by_default else pytest.mark.engines)
        for name in names
    ]


@dataclass(frozen=True)
class Filled:
    """A store in which each scenario is run when its thread is first requested."""

    harness: Harness
    known: dict[str, Thread] = field(default_factory=dict)

    @property
    def saver(self) -> Any:
        return self.harness.kept_saver

    def thread(self, name: str) -> Thread:
        if name not in self.known:
            # If a saver could not store the whole thread, the stored part is tested.
            with suppress(*([Exception] if name in UNSTORABLE else [])):
                self.known[name] = drive(self.saver, scenarios.SCENARIOS[name])
        return self.known[name]

    def ids(self, name: str) -> list[str]:
        """Return the checkpoints of a thread's root namespace, newest first."""
        self.thread(name)
        return stored_ids(self.saver, name)


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
