"""Pairs of layouts between which threads are copied, and in which tier each is tested."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest

from ckpt_backends.declaration import known_backends
from ckpt_backends.testing.harness import Harness
from ckpt_backends.transfer.copying import refusal
from ckpt_backends.transfer.form import Form, Language
from tests.kit.harness import HARNESSES
from tests.kit.harness.javascript import (
    JavaScriptDevHarness,
    JavaScriptMongoHarness,
    JavaScriptRedisHarness,
    ShallowJavaScriptRedisHarness,
)
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.official import MOST_TELLING, TELLING, Source

Sources: TypeAlias = Callable[[type[Harness], frozenset[str] | None], Source]
"""A function that returns a filled store."""
Places: TypeAlias = Callable[[type[Harness]], AbstractContextManager[Harness]]
"""A function that yields the harness of an empty place."""
PYTHON = {one.name: one for one in HARNESSES if one.recording is None and " " not in one.name}
"""The harness of each layout of Python."""
_SLOW = ("dynamodb", "mysql-shallow", "redis-shallow")
"""Layouts whose test servers take long, and shallow ones: that of PostgreSQL is tried for all."""
_FEWEST = frozenset({"chat", "interrupt-nested", "delta-often", "two\nlines"})
"""What is copied to and from DynamoDB, whose test server takes minutes for the others."""


@dataclass(frozen=True)
class CopyPair:
    """A source and a target, and the scenarios that are copied between them."""

    source: type[Harness]
    target: type[Harness]
    only: frozenset[str] | None
    comes_back: bool = True
    """Whether the copy is copied back."""

    @property
    def name(self) -> str:
        what = "all" if self.only is None else len(self.only)
        return f"{self.source.name} to {self.target.name} ({what})"


def pairs() -> Iterator[Any]:
    """Yield all pairs that can be copied, as parameters with the marks of their tiers."""
    for source in PYTHON.values():
        for target in PYTHON.values():
            if refusal(source.name, target.name, Language.PYTHON):
                continue
            names = {source.name, target.name}
            # The pair from the other layout to SQLite goes both ways.
            back = source.name != "sqlite" or names == {"sqlite"}
            some = TELLING if names == {"sqlite"} else MOST_TELLING
            few = CopyPair(source, target, _FEWEST if "dynamodb" in names else some, back)
            marks: Any = pytest.mark.nightly
            if target.name == "sqlite" and source.name not in _SLOW:
                # It is copied back, so that the other layout is a target, too.
                marks = () if source.name == "sqlite" else pytest.mark.engines
            yield pytest.param(few, id=few.name, marks=marks)
            if "sqlite" in names and "dynamodb" not in names:
                every = CopyPair(source, target, None)
                yield pytest.param(every, id=every.name, marks=pytest.mark.nightly)


def creating(target: Harness) -> list[str]:
    """Return `--create` if that makes the layout; otherwise, make the store by its saver."""
    if any(target.name in backend.creates.values() for backend in known_backends()):
        return ["--create"]
    target.kept_saver  # noqa: B018
    return []


def form_of(layout: str) -> Form:
    """The form of the Python threads of a layout."""
    for backend in known_backends():
        for form in backend.forms.get(layout, ()):
            if form.language is Language.PYTHON:
                return form
    raise AssertionError(layout)


def count_alike(one: str, other: str) -> bool:
    """Whether the savers of two layouts both count versions with texts, or both with integers."""
    return form_of(one).counts_with_integers is form_of(other).counts_with_integers


PAIRS = list(pairs())
JAVASCRIPT: dict[str, type[Harness]] = {
    "sqlite": SqliteHarness,
    "postgres": PostgresHarness,
    "mongodb-js": JavaScriptMongoHarness,
    "redis-js": JavaScriptRedisHarness,
    "redis-js-shallow": ShallowJavaScriptRedisHarness,
    "langgraph-dev-js": JavaScriptDevHarness,
}
"""The harness of each layout of LangGraph.js."""


def _javascript_pairs() -> Iterator[Any]:
    for source in JAVASCRIPT:
        for target in JAVASCRIPT:
            if not refusal(source, target, Language.JAVASCRIPT):
                # The test server of MongoDB takes 17 seconds to get all threads.
                is_quick = "sqlite" in {source, target} and target != "mongodb-js"
                mark = pytest.mark.engines if is_quick else pytest.mark.nightly
                yield pytest.param(source, target, id=f"{source} to {target}", marks=mark)


JAVASCRIPT_PAIRS = list(_javascript_pairs())
