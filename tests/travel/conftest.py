"""Stores with one thread a scenario, to go back in."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from tests.servers import Server, postgres_database
from tests.travel.official import Thread, drive, graphs, scenarios
from tests.travel.places import Place, postgres_place, sqlite_place

UNSTORABLE = {"zoo-floats", "zoo-text"}
"""JSONB has no NaN, and no text with a NUL."""


@dataclass(frozen=True)
class Filled:
    """A store and its threads."""

    place: Place
    threads: dict[str, Thread]

    @property
    def saver(self) -> Any:
        return self.place.saver()


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The library warns of each type that it was not told of."""
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="session")
def sqlite_filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    with sqlite_place(tmp_path_factory.mktemp("travel") / "store.db") as place:
        yield filled(place)


@pytest.fixture(scope="session")
def postgres_filled(postgres_server: Server) -> Iterator[Filled]:
    with postgres_database(postgres_server) as url, postgres_place(url) as place:
        yield filled(place)


def filled(place: Place) -> Filled:
    """Every scenario of the fixtures that is not async, run now."""
    threads = {}
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, scenario in scenarios.SCENARIOS.items():
            if not scenario.is_async:
                with suppress(*([Exception] if name in UNSTORABLE else [])):
                    threads[name] = drive(place.saver(), scenario)
    logging.disable(logging.NOTSET)
    # Only while a store is filled do two writers meet.
    vars(graphs)["settle"] = lambda: None
    return Filled(place, threads)
