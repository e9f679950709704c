"""Cut values to a size that can be shown on a screen."""

from __future__ import annotations

from typing import Literal

from ckpt_backends.codec.values import Cut, Tagged, Value

LONGEST = 50_000
"""Number of characters of a string, or of bytes, that are kept."""
MOST = 5_000
"""Number of parts of one value that are kept, on all levels together."""


def clip(value: Value) -> Value:
    """Shorten texts to `LONGEST` characters and keep at most `MOST` parts of a value.

    A `Cut` marks each place where something was left out. A small value is returned unchanged.
    """
    return _clip(value, [MOST])


def _clip(value: Value, left: list[int]) -> Value:
    left[0] -= 1
    if isinstance(value, str | bytes) and len(value) > LONGEST:
        reason = "only its beginning is shown"
        unit: Literal["byte", "character"] = "character" if isinstance(value, str) else "byte"
        return Cut(value[:LONGEST], len(value), reason, unit)
    if isinstance(value, list):
        items: list[Value] = []
        for item in value:
            if left[0] <= 0:
                return Cut(items, len(value), f"its first {len(items):,} are shown", "item")
            items.append(_clip(item, left))
        return items
    if isinstance(value, dict):
        fields: dict[Value, Value] = {}
        for key, item in value.items():
            if left[0] <= 0:
                return Cut(fields, len(value), f"its first {len(fields):,} are shown", "key")
            fields[key] = _clip(item, left)
        return fields
    if isinstance(value, Tagged):
        return Tagged(value.type, _clip(value.payload, left))
    if isinstance(value, Cut):
        return value.with_kept(_clip(value.kept, left))
    return value
