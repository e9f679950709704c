"""Show where a stored value differs from the expected one, as text and as a record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ckpt_backends.codec import to_json
from ckpt_backends.codec.values import Value
from ckpt_cli.core.diff.value_diff import Op
from ckpt_cli.core.replay.differences import Differences
from ckpt_cli.core.values.paths import format_path
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.values.one_line import summary

_CELLS = 40
"""Maximum columns of each of the two values."""
_BEFORE = 12
"""Number of characters shown before the first difference of long texts."""


def difference_texts(found: Differences) -> Iterator[str]:
    """Yield one text for each place: `[149].note: "tick 150" ≠ "tick 999"`."""
    for op in found.ops:
        path = safe_text(format_path(op.path)) if op.path else ""
        yield f"{path}: {_text(op)}" if path else _text(op)
    if found.more:
        yield f"and {found.more} more"


def difference_records(found: Differences) -> dict[str, Any]:
    """Return the same as JSON; a side that does not exist is null."""
    return {
        "places": [
            {
                "op": op.op,
                "path": format_path(op.path) if op.path else "",
                "rebuilt": to_json(op.before),
                "stored": to_json(op.after),
            }
            for op in found.ops
        ],
        "more": found.more,
    }


def _text(op: Op) -> str:
    if op.op == "add":
        return f"{_side(op.after)} is stored, but was not written"
    if op.op == "remove":
        return f"{_side(op.before)} was written, but is not stored"
    if op.op == "move":
        return f"was at [{op.moved_from}]"
    before, after = _apart(op.before, op.after)
    return f"{_side(before)} ≠ {_side(after)}"


def _side(value: Value) -> str:
    return summary(value, _CELLS, quote=True)


def _apart(one: Value, other: Value) -> tuple[Value, Value]:
    """Shorten two long texts to start shortly before their first difference."""
    if not (isinstance(one, str) and isinstance(other, str)):
        return one, other
    ends = min(len(one), len(other))
    at = next((n for n in range(ends) if one[n] != other[n]), ends)
    if at < _CELLS // 2:
        return one, other
    return f"…{one[at - _BEFORE :]}", f"…{other[at - _BEFORE :]}"
