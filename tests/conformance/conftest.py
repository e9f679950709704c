"""Stores filled by their official savers, and what the official library reads from them."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pytest

from tests.harness import HARNESSES, Harness
from tests.harness.opening import own_server
from tests.harness.tiers import Fill, fills
from tests.support import FIXTURES


@dataclass(frozen=True)
class Filled:
    """A store with one thread per scenario, and the truth in the form of `truth.json`."""

    harness: Harness
    threads: dict[str, dict[str, Any]]

    @property
    def some(self) -> dict[str, dict[str, Any]]:
        """One third of the threads, for tests that run a command on each; other layouts have the
        rest.

        In the first layout, all threads.
        """
        number = HARNESSES.index(type(self.harness))
        return {
            thread_id: truth
            for at, (thread_id, truth) in enumerate(sorted(self.threads.items()))
            if number == 0 or at % 3 == number % 3
        }


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests on every store of the run's tiers.

    A module's `BARE` selects bare or other layouts (`test_bare.py`). Its `DISTINCT` is set if its
    answers depend on the kind of layout only.
    """
    if "filled" in metafunc.fixturenames:
        kind = getattr(metafunc.module, "BARE", None)
        kinds = [one for one in HARNESSES if kind in {None, one.bare}]
        distinct = getattr(metafunc.module, "DISTINCT", False)
        chosen = fills(kinds, distinct=distinct, config=metafunc.config)
        metafunc.parametrize("filled", chosen, indirect=True, scope="session")


@pytest.fixture(scope="session")
def filled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Filled]:
    """Run every scenario of the fixtures now, through the installed official saver.

    For LangGraph.js, the stored fixture is used.
    """
    fill: Fill = request.param
    kind = fill.kind
    if kind.fixture is not None:
        with own_server(kind, request) as server:
            harness = kind(tmp_path_factory.mktemp(kind.name), server)
            harness.restore()
            yield Filled(harness, harness.told())
            harness.close()
        return
    make = str(FIXTURES / "make")
    if make not in sys.path:
        sys.path.insert(0, make)
    scenarios, write = import_module("scenarios"), import_module("write")

    with ExitStack() as stack:
        server = stack.enter_context(own_server(kind, request))
        harness = kind(tmp_path_factory.mktemp(kind.name), server)
        chosen = {name: one for name, one in scenarios.SCENARIOS.items() if not one.is_async}
        for name in kind.mangled:
            del chosen[name]
        if fill.only is not None:
            chosen = {name: one for name, one in chosen.items() if name in fill.only}
        logging.disable(logging.WARNING)
        try:
            with warnings.catch_warnings(), harness.saver() as saver:
                warnings.simplefilter("ignore")
                for name, scenario in chosen.items():
                    run = scenarios.Run(
                        scenario.build(saver), scenario.thread_config(), dict(kind.options)
                    )
                    with pytest.raises(kind.refusal) if name in kind.refused else nullcontext():
                        scenario.drive(run)
                teller = harness.truthful(saver)
                threads = {
                    name: write.tell(scenario.build(teller), scenario, namespaces)
                    for name, scenario in chosen.items()
                    if (namespaces := _namespaces(teller, name)) or name not in kind.refused
                }
        finally:
            logging.disable(logging.NOTSET)
        yield Filled(harness, threads)
        harness.close()


def _namespaces(saver: Any, thread_id: str) -> list[str]:
    config = {"configurable": {"thread_id": thread_id}}
    found = {row.config["configurable"]["checkpoint_ns"] for row in saver.list(config)}
    return sorted(found)
