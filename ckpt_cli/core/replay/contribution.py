"""Compute what each write of a step did to its channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ckpt_backends.codec.values import Value
from ckpt_cli.core.diff.state_diff import ChannelChange, Counts, count, diff_channels
from ckpt_cli.core.replay.add_messages import Pending
from ckpt_cli.core.replay.reducers import ABSENT, REDUCERS, Held, Reducer, is_not_stored, overwrite
from ckpt_cli.core.tasks.writes import TaskWrite

Effect = Literal["applied", "duplicate", "overwritten", "dropped", "ignored", "special", "unknown"]
"""The result of a write.

- `applied`: it changed the channel.
- `duplicate`: it changed nothing.
- `overwritten`: an `Overwrite` in the same step replaced it.
- `dropped`: not applied: a new input discards the writes of unfinished tasks.
- `ignored`: the graph has no such channel.
- `special`: LangGraph uses the channel internally.
- `unknown`: the reducer of the channel is not known.
"""


@dataclass(frozen=True, slots=True)
class Contribution:
    """One write and its result."""

    placed: TaskWrite
    value: Value
    effect: Effect
    counts: Counts | None = None
    """Number of items of the channel that it added, removed and changed."""


def contributions(
    base: Held, batches: Sequence[Sequence[tuple[TaskWrite, Value]]], name: str | None
) -> tuple[Held, list[Contribution]]:
    """Apply writes to a channel; return the new value and the result of each write.

    Returns `ABSENT` and results `unknown` if the reducer is not known or does not accept such
    values, and if the value before the step is not stored.
    """
    reducer = None if name is None or is_not_stored(base) else REDUCERS.get(name)
    found: list[Contribution] = []
    held = base
    for batch in batches:
        replaces = [n for n, (_, value) in enumerate(batch) if overwrite(value)[0]]
        for n, (placed, value) in enumerate(batch):
            if replaces and n != replaces[0]:
                found.append(Contribution(placed, value, "overwritten"))
                continue
            after = None if reducer is None else _after(reducer, held, value)
            if after is None:
                found.append(Contribution(placed, value, "unknown"))
                reducer = None
                continue
            change = _change(held, after[0])
            effect: Effect = "applied" if change is not None else "duplicate"
            found.append(
                Contribution(placed, value, effect, None if change is None else count(change))
            )
            held = after[0]
    return (held if reducer is not None else ABSENT), found


def plain(value: Held) -> Value:
    """Return a value for display; messages that have no id yet are shown as they were written."""
    if value is ABSENT:
        return None
    if isinstance(value, list):
        return [item.payload if isinstance(item, Pending) else item for item in value]
    return value


def _after(reducer: Reducer, held: Held, value: Value) -> tuple[Held] | None:
    results = reducer.results(held, [[value]])
    return (results[0],) if results else None


def _change(before: Held, after: Held) -> ChannelChange | None:
    sides: list[dict[str, Value]] = [
        {} if side is ABSENT else {"": plain(side)} for side in (before, after)
    ]
    return diff_channels(*sides).get("")
