"""Which layouts a run tests: one of each engine by default, the others with a marker."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import pytest

from ckpt_backends.testing.filling import FEW_SCENARIOS, Fill
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.trials import can_travel
from tests.harness import HARNESSES

FAST = frozenset(
    {"sqlite", "postgres", "mysql", "langgraph-dev", "mongodb", "redis", "three-table", "dynamodb"}
)
"""One layout of each engine: these are tested by default, the others with `-m engines`."""
DISTINCT = frozenset({"sqlite", "postgres-shallow", "redis-js"})
"""One layout of each kind of answer: all layouts with history, or all shallow ones, answer alike.

`test_same.py` shows that they do, so commands are run on the others with `-m slow` only.
"""
SLOWEST = frozenset({"mongodb", "mongodb-js", "kaflow", "dynamodb"})
"""The layouts whose test server takes the most time."""
FEWEST = {"dynamodb": FEW_SCENARIOS - {"delta-rarely", "two\nlines"}}
"""By layout, fewer scenarios for the default run: the test server of DynamoDB takes 10 ms of CPU
time for each request. Its tests of changes run with `-m engines`."""


TRAVELLING = {"postgres", "mysql", "mongodb", "langgraph-dev", "redis"}
"""One layout of each engine for time travel by default. SQLite has tests of its own."""
COPIED = TRAVELLING | {"redis-hash", "redis-plain", "valkey", "dynamodb"}
"""The layouts whose time travel is tested."""


def fills(kinds: Iterable[type[Harness]], *, distinct: bool, config: pytest.Config) -> list[Any]:
    """Return the stores of a conformance test, as parameters with the marks of their tiers.

    `distinct` is for tests whose answers depend on the kind of layout only. What the run leaves
    out anyway is not generated, which would take seconds.
    """
    found = []
    for kind in kinds:
        for only, mark in _tiers(kind, distinct=distinct):
            if mark in {"", "fast"} or _asks_for(config, mark):
                third = HARNESSES.index(kind) % 3 if kind is not HARNESSES[0] else None
                fill = Fill(kind, kind.only_scenarios if only is None else only, third)
                marks = [] if mark in {"", "fast"} else [getattr(pytest.mark, mark)]
                found.append(pytest.param(fill, id=fill.name, marks=marks))
    return found


def _tiers(kind: type[Harness], *, distinct: bool) -> Iterator[tuple[frozenset[str] | None, str]]:
    """Yield the scenarios of a layout, each time with the marker of their tier."""
    if kind.name == "sqlite":
        yield None, "fast"
    elif distinct and not kind.values_only:
        yield None, "engines" if kind.name in DISTINCT else "slow"
    elif kind.name in SLOWEST and kind.recording is None:
        if kind.name in FEWEST:
            yield FEWEST[kind.name], "fast"
        yield FEW_SCENARIOS, "fast" if kind.name in FAST - FEWEST.keys() else "engines"
        yield None, "slow"
    elif kind.name in FAST:
        yield FEW_SCENARIOS, "fast"
        yield None, "engines"
    else:
        yield None, "engines"


def _asks_for(config: pytest.Config, mark: str) -> bool:
    """Whether the marker expression of the run may select tests with a marker."""
    expression = config.getoption("markexpr") or mark
    return re.search(rf"(?<!not )\b{mark}\b", expression) is not None


def layouts(kinds: Collection[type[Harness]] = HARNESSES) -> list[Any]:
    """Return layouts as parameters with the marks of their tiers.

    LangGraph.js has to be installed for its layouts, so these are slow.
    """
    return [
        pytest.param(
            kind,
            id=kind.name,
            marks=pytest.mark.slow
            if kind.recording
            else ()
            if kind.name in FAST - FEWEST.keys()
            else pytest.mark.engines,
        )
        for kind in kinds
    ]


def travels(kinds: Iterable[type[Harness]], names: Sequence[str], *, every: bool) -> list[Any]:
    """Return parameters of a layout and a scenario, with the marks of their tiers.

    By default, one thread of each kind is tested on one layout of each engine.
    """
    return [
        pytest.param(
            kind,
            name,
            id=f"{kind.name}-{name}",
            marks=() if every else _mark_of_travel(kind.name, name),
        )
        for kind in kinds
        if kind.name in COPIED
        for name in names
        if can_travel(kind, name)
    ]


def _mark_of_travel(layout: str, name: str) -> Any:
    is_chosen = name in {"linear", "subgraph-stateful"}
    if layout in TRAVELLING and is_chosen:
        return ()
    return pytest.mark.slow if layout in FEWEST and not is_chosen else pytest.mark.engines
