"""Measure what is declared, and check the answers."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench.declared import MEMORY, Beside, Made, MakesCommand, Measurement, ckpt
from tests.bench.measure import Command, Prepares, Run, Runs, interleaved, run
from tests.bench.table import Row, seconds_of, short, times

_OURS = "ckpt"
_LEAST = 0.001
"""Seconds; shorter times are not told apart from the noise of a start."""


def measured(one: Measurement, made: Made, *, seconds: float) -> Iterator[Row]:
    """Yield the rows of a measurement; after these seconds, no further round of it begins.

    Raises AssertionError if an answer is wrong.
    """
    what = one.what.format(**made.facts)
    if one.tells:
        yield from _told(one, made, what)
        return
    if one.check is not None:
        one.check(made, _asking(made))
    makers: dict[str, MakesCommand] = {_OURS: one.ours}
    for other in one.beside:
        makers[other.name] = other.command
        if other.start is not None:
            makers[f"start of {other.name}"] = other.start
    if not one.changes:
        for maker in makers.values():
            maker(made)  # makes the environment of the peer, which takes no time of the rounds
    telling = {other.name for other in one.beside if other.tells}
    commands = {name: _prepared(one, made, maker) for name, maker in makers.items()}
    runs = interleaved(commands, one.rounds, seconds=seconds, limit=one.limit, telling=telling)
    ours = runs[_OURS]
    rows = [_compared(what, made, other, runs) for other in one.beside]
    if one.seconds is not None:
        is_met = not ours.stopped and ours.least <= one.seconds
        rows.append(_row(what, made, ours, budget=f"{one.seconds:g} s", within=is_met))
    if one.rate is not None:
        rate = int(made.facts[one.rate.fact]) / ours.least
        told = f"{rate:,.0f} {one.rate.unit}"
        budget = ""
        within: bool | None = None
        if one.rate.least is not None:
            budget = f"{one.rate.least:,.0f} {one.rate.unit}"
            within = not ours.stopped and rate >= one.rate.least
        rows.append(_row(what, made, ours, beside=told, budget=budget, within=within))
    yield from rows or [_row(what, made, ours)]


def _compared(what: str, made: Made, other: Beside, runs: Mapping[str, Runs]) -> Row:
    """Return the ratio of the shortest times, which noise affects least, and of the CPU times."""
    ours, theirs = runs[_OURS], runs[other.name]
    budget = "" if other.most is None else times(other.most)
    allowed = (other.most or 0) * theirs.least
    if other.start is not None:
        start = runs[f"start of {other.name}"]
        allowed = start.least + (other.most or 0) * max(theirs.least - start.least, 0)
        budget = f"{short(allowed)}: start + {budget}"
    ratio = ours.least / max(theirs.least, _LEAST)
    cpu = ours.cpu / max(theirs.cpu, _LEAST)
    within = None if other.most is None else ours.least <= allowed and not ours.stopped
    told = f"{seconds_of(theirs)} {other.name}"
    more = ">" if ours.stopped else ""
    less = "<" if theirs.stopped else ""
    return _row(
        what,
        made,
        ours,
        ratio=f"{more}{less}{times(ratio)}",
        cpu=times(cpu),
        beside=told,
        budget=budget,
        within=within,
    )


def _row(what: str, made: Made, ours: Runs, **more: Any) -> Row:
    memory = f"{ours.mib:.0f} MiB{' NO' if ours.mib > MEMORY else ''}"
    return Row(what, made.engine, seconds_of(ours), memory=memory, least=ours.least, **more)


def _told(one: Measurement, made: Made, what: str) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "told.json")
        run(one.ours(made), out=out)
        found: dict[str, float] = json.loads(out.read_bytes())
    mib = found.pop("mib", None)
    for name, seconds in found.items():
        told = seconds_of(Runs([Run(seconds, 0, 0, 0)]))
        budget, within = "", None
        if one.seconds is not None:
            budget, within = f"{one.seconds:g} s", seconds <= one.seconds
        yield Row(
            f"{what}: {name}",
            made.engine,
            told,
            budget=budget,
            within=within,
            memory="" if mib is None else f"{mib:.0f} MiB",
            least=seconds,
        )


def _prepared(one: Measurement, made: Made, maker: MakesCommand) -> Prepares:
    @contextmanager
    def prepare() -> Iterator[Command]:
        if not one.changes:
            yield maker(made)
            return
        assert made.scratch is not None, one.store
        with made.scratch() as copy:
            yield maker(copy)
            if one.after is not None:
                one.after(copy)

    return prepare


def _asking(made: Made) -> Callable[..., Any]:
    def ask(*words: str) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "answer.json")
            run(ckpt(*words, "-o", "json")(made), out=out, codes=(0, 1))
            return json.loads(out.read_bytes())

    return ask
