"""Print in short what a step changed."""

from __future__ import annotations

from collections.abc import Sequence

from ckpt_cli.core.step_changes import ShortChange
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.values.one_line import counted

_LONG = 24
"""Characters of a value before that leave enough room for the one after."""
_NAMED = 6
"""Maximum number of changed channels that are named."""


def changes_text(changes: Sequence[ShortChange], arrow: str = " → ") -> str:
    """Return changes on one line: `+1 ai: Hotel Kanra…, budget 120 → 90, notes +2`."""
    texts = [_text(one, arrow) for one in changes[:_NAMED]]
    if len(changes) > _NAMED:
        texts.append(counted(len(changes) - _NAMED, "more channel"))
    return ", ".join(texts)


def _text(one: ShortChange, arrow: str) -> str:
    if one.last is not None:
        return f"+{one.added} {safe_text(one.last)}"
    name = safe_text(one.name)
    if one.after is None:
        return f"{name} +{one.added}" if one.added else name
    is_told = one.before is not None and len(one.before) <= _LONG
    before = f" {safe_text(one.before or '')}" if is_told else ""
    return f"{name}{before}{arrow}{safe_text(one.after)}"
