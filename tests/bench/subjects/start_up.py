"""How long `ckpt` takes to say its version, and the help."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.bench import raw, typer_program
from tests.bench.declared import CKPT, Beside, Made, MakesCommand, Measurement, Subject
from tests.bench.measure import Command


def _typer(_: Made) -> Command:
    return [sys.executable, "-c", raw.TYPER]


def _help(_: Made) -> Command:
    return [sys.executable, str(Path(typer_program.__file__)), "--help"]


def _nothing(_: Made) -> Command:
    return [sys.executable, "-c", raw.NOTHING]


def _starting(word: str, name: str, other: MakesCommand, most: float) -> Measurement:
    return Measurement(
        what=f"ckpt {word}",
        store="nothing",
        ours=lambda _: [CKPT, word],
        beside=[Beside(name, other, most), Beside("python -c pass", _nothing)],
        rounds=15,
    )


SUBJECT = Subject(
    "start-up",
    "start of the program",
    [
        _starting("--version", "import typer", _typer, 0.5),
        _starting("--help", "help of a Typer program", _help, 1.2),
    ],
)
