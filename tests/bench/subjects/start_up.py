"""How long `ckpt` takes to say its version, and the help."""

from __future__ import annotations

import sys

from tests.bench import raw
from tests.bench.declared import CKPT, Beside, Made, Measurement, Subject
from tests.bench.measure import Command
from tests.bench.peer import peer_python


def _typer(_: Made) -> Command:
    return [peer_python(), "-c", raw.TYPER]


def _nothing(_: Made) -> Command:
    return [sys.executable, "-c", raw.NOTHING]


def _starting(word: str, most: float) -> Measurement:
    return Measurement(
        what=f"ckpt {word}",
        store="nothing",
        ours=lambda _: [CKPT, word],
        beside=[Beside("import typer", _typer, most), Beside("python -c pass", _nothing)],
        rounds=15,
    )


SUBJECT = Subject(
    "start-up", "start of the program", [_starting("--version", 0.5), _starting("--help", 1)]
)
