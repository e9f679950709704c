"""Find where a stored value differs from the value that the writes produce."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ckpt_backends.codec.values import Cut, Value
from ckpt_cli.core.diff.value_diff import Op, diff_values
from ckpt_cli.core.redact import redact
from ckpt_cli.core.replay import add_messages
from ckpt_cli.core.replay.add_messages import Pending
from ckpt_cli.core.replay.contribution import plain
from ckpt_cli.core.replay.reducers import ABSENT, Held
from ckpt_cli.core.values.clip import clip

MOST = 3
"""Number of differing places that are named for one value."""


@dataclass(frozen=True, slots=True)
class Differences:
    """The first places where a stored value differs from the expected one."""

    ops: tuple[Op, ...]
    """The operations that turn the expected value into the stored one."""
    more: int
    """Number of further places that are not named."""


def differences(expected: Held, stored: Held) -> Differences | None:
    """Return how a stored value differs; None if it does not, or if a side is missing or cut."""
    if expected is ABSENT or stored is ABSENT:
        return None
    if isinstance(expected, Cut) or isinstance(stored, Cut):
        return None
    if isinstance(expected, list) and isinstance(stored, list):
        # A message without an id gets one when it is merged, so such messages are compared without
        # it.
        met = [
            other if isinstance(item, Pending) and add_messages.fits(item, other) else item
            for item, other in zip(expected, stored, strict=False)
        ]
        expected = [*met, *expected[len(met) :]]
    ops = diff_values(plain(expected), stored)
    kept = [replace(op, before=clip(op.before), after=clip(op.after)) for op in ops[:MOST]]
    return Differences(tuple(kept), len(ops) - len(kept)) if ops else None


def without_values(found: Differences) -> Differences:
    """Return the same places with indexes only: keys and values are hidden."""

    def hidden(op: Op, value: Value, *kinds: str) -> Value:
        return redact(value) if op.op in kinds else None

    ops = [
        replace(
            op,
            path=tuple("*" if isinstance(step, str) else step for step in op.path),
            before=hidden(op, op.before, "remove", "replace"),
            after=hidden(op, op.after, "add", "replace"),
            id=None,
        )
        for op in found.ops
    ]
    return Differences(tuple(ops), found.more)
