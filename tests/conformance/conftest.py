"""Stores filled by their official savers, with what the official library then says of them."""

from __future__ import annotations

import logging
import sys
import warnings
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pytest

from tests.conformance.benches import BENCHES, Bench
from tests.support import FIXTURES


@dataclass(frozen=True)
class Filled:
    """A store with one thread a scenario, and the truth in the form of `truth.json`."""

    bench: Bench
    threads: dict[str, dict[str, Any]]


@pytest.fixture(scope="session", params=BENCHES, ids=[bench.name for bench in BENCHES])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """Every scenario of the fixtures, run now, through the installed official saver."""
    make = str(FIXTURES / "make")
    if make not in sys.path:
        sys.path.insert(0, make)
    scenarios, write = import_module("scenarios"), import_module("write")

    bench: Bench = request.param(tmp_path_factory.mktemp(request.param.name))
    chosen = {name: one for name, one in scenarios.SCENARIOS.items() if not one.is_async}
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), bench.saver() as saver:
            warnings.simplefilter("ignore")
            for scenario in chosen.values():
                scenario.drive(scenarios.Run(scenario.build(saver), scenario.thread_config()))
            threads = {
                name: write.tell(scenario.build(saver), scenario, _namespaces(saver, name))
                for name, scenario in chosen.items()
            }
    finally:
        logging.disable(logging.NOTSET)
    return Filled(bench, threads)


def _namespaces(saver: Any, thread_id: str) -> list[str]:
    config = {"configurable": {"thread_id": thread_id}}
    found = {row.config["configurable"]["checkpoint_ns"] for row in saver.list(config)}
    return sorted(found)
