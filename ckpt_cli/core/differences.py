"""Where a stored value differs from the value that the writes produce."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ckpt_backends.codec.values import Cut, Value
from ckpt_cli.core import merge_messages
from ckpt_cli.core.clip import clip
from ckpt_cli.core.contribution import plain
from ckpt_cli.core.diff import Op, diff_values
from ckpt_cli.core.merge_messages import Pending
from ckpt_cli.core.merging import ABSENT, Held
from ckpt_cli.core.redact import redact

MOST = 3
"""Places of one value that are named."""


@dataclass(frozen=True, slots=True)
class Differences:
    """The first places at which a stored value is not the expected one."""

    ops: tuple[Op, ...]
    """What turns the expected value into the stored one."""
    more: int
    """Places that are not named."""


def differences(expected: Held, stored: Held) -> Differences | None:
    """How a stored value differs; None where one side is missing, or not readable as a whole."""
    if expected is ABSENT or stored is ABSENT:
        return None
    if isinstance(expected, Cut) or isinstance(stored, Cut):
        return None
    if isinstance(expected, list) and isinstance(stored, list):
        # The id of a message that had none is made when it is merged.
        met = [
            other if isinstance(item, Pending) and merge_messages.fits(item, other) else item
            for item, other in zip(expected, stored, strict=False)
        ]
        expected = [*met, *expected[len(met) :]]
    ops = diff_values(plain(expected), stored)
    kept = [replace(op, before=clip(op.before), after=clip(op.after)) for op in ops[:MOST]]
    return Differences(tuple(kept), len(ops) - len(kept)) if ops else None


def without_values(found: Differences) -> Differences:
    """The places by index, keys and values left out."""

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
