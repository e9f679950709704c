"""Values cut to what a person may look through on a screen."""

from __future__ import annotations

from dataclasses import replace

from ckpt_backends.codec.values import Cut, Tagged, Value

LONGEST = 50_000
"""Characters of a text, or bytes, that are kept."""
MOST = 5_000
"""Parts that are kept of one value, in all that it holds."""


def clip(value: Value) -> Value:
    """A value of which no text is longer than `LONGEST` and no more than `MOST` parts are kept.

    Where something is left out stands a `Cut`. A value that is small enough is given back as it
    is.
    """
    return _clip(value, [MOST])


def _clip(value: Value, left: list[int]) -> Value:
    left[0] -= 1
    if isinstance(value, str | bytes) and len(value) > LONGEST:
        kept = value[:LONGEST]
        return Cut(kept, len(value), "only its beginning is shown")
    if isinstance(value, list):
        items: list[Value] = []
        for item in value:
            if left[0] <= 0:
                return Cut(items, len(value), f"its first {len(items)} items are shown")
            items.append(_clip(item, left))
        return items
    if isinstance(value, dict):
        fields: dict[Value, Value] = {}
        for key, item in value.items():
            if left[0] <= 0:
                return Cut(fields, len(value), f"its first {len(fields)} keys are shown")
            fields[key] = _clip(item, left)
        return fields
    if isinstance(value, Tagged):
        return replace(value, payload=_clip(value.payload, left))
    if isinstance(value, Cut):
        return replace(value, kept=_clip(value.kept, left))
    return value
