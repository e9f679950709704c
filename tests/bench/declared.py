"""What is measured: a command of `ckpt`, what stands beside it, and the budget."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.measure import Command

CKPT = Path(sysconfig.get_path("scripts")) / "ckpt"
MEMORY = 150
"""MiB that any command may use."""


@dataclass(frozen=True, slots=True)
class Made:
    """A store that was made to be measured."""

    engine: str
    url: str
    facts: Mapping[str, str] = field(default_factory=dict)
    """Names of threads and numbers, which commands and titles may name in braces."""
    scratch: Callable[[], AbstractContextManager[Made]] | None = None
    """Gives a copy that one run may change."""

    @property
    def path(self) -> Path:
        """The file of a SQLite store."""
        return Path(self.url)


Asked = Callable[..., Any]
"""Runs `ckpt` with these words on the store, and returns what it says with `-o json`."""
MakesCommand = Callable[[Made], Command]


def ckpt(*words: str) -> MakesCommand:
    """Return `ckpt` with these words on a store; `{name}` stands for one of its facts."""
    return lambda made: [CKPT, "-s", made.url, *(word.format(**made.facts) for word in words)]


def python(program: str, *arguments: str) -> MakesCommand:
    """Return a program that gets the URL of the store, and these arguments."""
    return lambda made: [
        *(sys.executable, "-c", program, made.url),
        *(one.format(**made.facts) for one in arguments),
    ]


@dataclass(frozen=True, slots=True)
class Beside:
    """What a command is compared with."""

    name: str
    command: MakesCommand
    most: float | None = None
    """The budget: how many times as long `ckpt` may take."""
    start: MakesCommand | None = None
    """A program that only starts. `ckpt` may take as long, and `most` times the rest."""
    tells: bool = False
    """Whether the program measures itself, without its imports, and prints seconds and CPU
    seconds last.
    """


@dataclass(frozen=True, slots=True)
class Rate:
    """A budget of work in a second."""

    fact: str
    """The fact of the store that tells how much work there is."""
    least: float | None = None
    unit: str = "checkpoints/s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A command that is measured on one store."""

    what: str
    """What the table says; may name facts of the store in braces."""
    store: str
    """The name of the store in `stores.MAKERS`."""
    ours: MakesCommand
    beside: Sequence[Beside] = ()
    seconds: float | None = None
    """The budget, if it is a time."""
    rate: Rate | None = None
    check: Callable[[Made, Asked], None] | None = None
    """Raises AssertionError if an answer is wrong."""
    changes: bool = False
    """Whether each run gets a scratch copy of the store."""
    after: Callable[[Made], None] | None = None
    """Checks the scratch copy after each run."""
    tells: bool = False
    """Whether `ours` is a program that prints its own figures, as JSON: name to seconds, and
    perhaps `mib`."""
    rounds: int = 5
    limit: int = 150
    """Seconds after which one run is stopped."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Measurements that belong together."""

    name: str
    about: str
    measurements: Sequence[Measurement]
    grows: bool = False
    """Whether the table has a column for each store, to show how cost grows."""
