"""Which layouts a run tests: one of each engine by default, the others with a marker."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ckpt_backends.testing.harness import Harness
from tests.harness import HARNESSES

FAST = frozenset(
    {"sqlite", "postgres", "mysql", "langgraph-dev", "mongodb", "redis", "three-table"}
)
"""One layout of each engine: these are tested by default, the others with `-m engines`."""
DISTINCT = frozenset({"sqlite", "postgres-shallow", "redis-js"})
"""One layout of each kind of answer: all layouts with history, or all shallow ones, answer alike.

`test_same.py` shows that they do, so commands are run on the others with `-m slow` only.
"""
SLOWEST = frozenset({"mongodb", "mongodb-js", "kaflow"})
"""The layouts whose test server takes the most time."""
FEW = frozenset(
    {"linear", "chat", "subgraph", "subgraph-stateful", "fork-chat", "fork-update", "reducers"}
    | {"interrupt-alone", "interrupt-nested", "interrupt-answered", "fanout-send", "error"}
    | {"command-input", "delta-rarely", "with-metadata", "durability-exit", "zoo-text"}
    | {"alice@example.com", "two\nlines", "会话-四十二"}
)
"""Scenarios that represent the others, for layouts on which all of them take too long."""


FEWEST = frozenset({"linear", "chat", "subgraph", "interrupt-nested", "delta-rarely", "two\nlines"})
"""The same for the layouts whose test server takes the most time."""


@dataclass(frozen=True)
class Fill:
    """How a store is filled."""

    kind: type[Harness]
    only: frozenset[str] | None
    """The scenarios to run; None for all."""

    @property
    def name(self) -> str:
        return self.kind.name if self.only is None else f"{self.kind.name} (few)"


def fills(kinds: Iterable[type[Harness]], *, distinct: bool, config: pytest.Config) -> list[Any]:
    """Return the stores of a conformance test, as parameters with the marks of their tiers.

    `distinct` is for tests whose answers depend on the kind of layout only. What the run leaves
    out anyway is not generated, which would take seconds.
    """
    found = []
    for kind in kinds:
        for only, mark in _tiers(kind, distinct=distinct):
            if mark in {"", "fast"} or _asks_for(config, mark):
                fill = Fill(kind, kind.only if only is None else only)
                marks = [] if mark in {"", "fast"} else [getattr(pytest.mark, mark)]
                found.append(pytest.param(fill, id=fill.name, marks=marks))
    return found


def _tiers(kind: type[Harness], *, distinct: bool) -> Iterator[tuple[frozenset[str] | None, str]]:
    """Yield the scenarios of a layout, each time with the marker of their tier."""
    if kind.name == "sqlite":
        yield None, "fast"
    elif distinct and not kind.bare:
        yield None, "engines" if kind.name in DISTINCT else "slow"
    elif kind.name in SLOWEST and kind.fixture is None:
        yield FEWEST, "fast" if kind.name in FAST else "engines"
        yield None, "slow"
    elif kind.name in FAST:
        yield FEW, "fast"
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
            if kind.fixture
            else ()
            if kind.name in FAST
            else pytest.mark.engines,
        )
        for kind in kinds
    ]
