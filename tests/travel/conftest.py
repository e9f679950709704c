"""Stores with one thread per scenario, for time travel."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.conftest import redis_of_its_own
from tests.servers import Server, mongodb_database, mysql_database, postgres_database
from tests.travel.official import Thread, drive, scenarios, stored_ids
from tests.travel.places import (
    Place,
    dev_place,
    mongodb_place,
    mysql_place,
    plain_redis_place,
    plain_redis_saver_place,
    postgres_place,
    redis_place,
    sqlite_place,
)

SAMPLE = [
    *("linear", "chat", "fanout-send", "fanout-join", "interrupt-answered", "interrupt-nested"),
    *("command-input", "update-mid", "subgraph-stateful", "delta-rarely", "durability-exit"),
    *('o\'brien "x"', "会话-四十二"),
]
"""Threads that represent the others when testing all of them would take too long."""
NAMES = [name for name, one in scenarios.SCENARIOS.items() if not one.is_async]
PLAIN = {
    name
    for name in NAMES
    if name.startswith("zoo-") or scenarios.SCENARIOS[name].name == "hostile-id"
}
"""Threads that differ only in what is stored, not in what runs."""

UNSTORABLE = {"zoo-floats", "zoo-text"}
"""JSONB has no NaN, and no text with a NUL; MySQL's JSON has no NaN either."""


@dataclass(frozen=True)
class Filled:
    """A store in which each scenario is run when its thread is first requested."""

    place: Place
    known: dict[str, Thread] = field(default_factory=dict)

    @property
    def saver(self) -> Any:
        return self.place.saver()

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


@pytest.fixture(scope="session")
def sqlite_filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    with sqlite_place(tmp_path_factory.mktemp("travel") / "store.db") as place:
        yield Filled(place)


@pytest.fixture(scope="session")
def dev_filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    with dev_place(tmp_path_factory.mktemp("travel-dev") / ".langgraph_api") as place:
        yield Filled(place)


@pytest.fixture(scope="session")
def postgres_filled(postgres_server: Server) -> Iterator[Filled]:
    with postgres_database(postgres_server) as url, postgres_place(url) as place:
        yield Filled(place)


@pytest.fixture(scope="session")
def mysql_filled(mysql_server: Server) -> Iterator[Filled]:
    with mysql_database(mysql_server) as url, mysql_place(url) as place:
        yield Filled(place)


@pytest.fixture(scope="session")
def mongodb_filled(mongodb_server: Server) -> Iterator[Filled]:
    with mongodb_database(mongodb_server) as url, mongodb_place(url) as place:
        yield Filled(place)


@pytest.fixture(scope="session")
def redis_filled() -> Iterator[Filled]:
    with redis_of_its_own(modules=True) as server, redis_place(server.url) as place:
        yield Filled(place)


@pytest.fixture(scope="session")
def plain_redis_filled() -> Iterator[Filled]:
    with redis_of_its_own(modules=False) as server, plain_redis_place(server.url) as place:
        yield Filled(place)


@pytest.fixture(scope="session")
def plain_redis_saver_filled() -> Iterator[Filled]:
    with (
        redis_of_its_own(modules=False) as server,
        plain_redis_saver_place(server.url) as place,
    ):
        yield Filled(place)
