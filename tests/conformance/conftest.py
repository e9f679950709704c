"""Stores filled by their official savers, and what the official library reads from them."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pytest

from tests.conformance.benches import BENCHES, Bench
from tests.conformance.benches.redis import PlainRedisBench
from tests.conftest import redis_of_its_own
from tests.servers import Server
from tests.support import FIXTURES


@contextmanager
def own_server(kind: type[Bench], request: pytest.FixtureRequest) -> Iterator[Server | None]:
    """Yield a separate server if a store is a whole server; otherwise the shared one of the run."""
    if kind.server is None:
        yield None
    elif kind.server.startswith("redis"):
        with redis_of_its_own(modules=not issubclass(kind, PlainRedisBench)) as server:
            yield server
    else:
        yield request.getfixturevalue(f"{kind.server}_server")


@dataclass(frozen=True)
class Filled:
    """A store with one thread per scenario, and the truth in the form of `truth.json`."""

    bench: Bench
    threads: dict[str, dict[str, Any]]

    @property
    def some(self) -> dict[str, dict[str, Any]]:
        """One third of the threads, for tests that run a command on each; other layouts have the
        rest.

        In the first layout, all threads.
        """
        number = BENCHES.index(type(self.bench))
        return {
            thread_id: truth
            for at, (thread_id, truth) in enumerate(sorted(self.threads.items()))
            if number == 0 or at % 3 == number % 3
        }


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests on every store; `BARE` in a module selects bare or other layouts
    (`test_bare.py`).
    """
    if "filled" in metafunc.fixturenames:
        kind = getattr(metafunc.module, "BARE", None)
        benches = [one for one in BENCHES if kind in {None, one.bare}]
        names = [one.name for one in benches]
        metafunc.parametrize("filled", benches, ids=names, indirect=True, scope="session")


@pytest.fixture(scope="session")
def filled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Filled]:
    """Run every scenario of the fixtures now, through the installed official saver.

    For LangGraph.js, the stored fixture is used.
    """
    kind: type[Bench] = request.param
    if kind.fixture is not None:
        with own_server(kind, request) as server:
            bench = kind(tmp_path_factory.mktemp(kind.name), server)
            bench.restore()
            yield Filled(bench, bench.told())
            bench.close()
        return
    make = str(FIXTURES / "make")
    if make not in sys.path:
        sys.path.insert(0, make)
    scenarios, write = import_module("scenarios"), import_module("write")

    with ExitStack() as stack:
        server = stack.enter_context(own_server(kind, request))
        bench = kind(tmp_path_factory.mktemp(kind.name), server)
        chosen = {name: one for name, one in scenarios.SCENARIOS.items() if not one.is_async}
        for name in kind.mangled:
            del chosen[name]
        if kind.only is not None:
            chosen = {name: one for name, one in chosen.items() if name in kind.only}
        logging.disable(logging.WARNING)
        try:
            with warnings.catch_warnings(), bench.saver() as saver:
                warnings.simplefilter("ignore")
                for name, scenario in chosen.items():
                    run = scenarios.Run(
                        scenario.build(saver), scenario.thread_config(), dict(kind.options)
                    )
                    with pytest.raises(kind.refusal) if name in kind.refused else nullcontext():
                        scenario.drive(run)
                teller = bench.truthful(saver)
                threads = {
                    name: write.tell(scenario.build(teller), scenario, namespaces)
                    for name, scenario in chosen.items()
                    if (namespaces := _namespaces(teller, name)) or name not in kind.refused
                }
        finally:
            logging.disable(logging.NOTSET)
        yield Filled(bench, threads)
        bench.close()


def _namespaces(saver: Any, thread_id: str) -> list[str]:
    config = {"configurable": {"thread_id": thread_id}}
    found = {row.config["configurable"]["checkpoint_ns"] for row in saver.list(config)}
    return sorted(found)
