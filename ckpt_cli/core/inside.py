"""What a value holds, seen through what it is wrapped in."""

from __future__ import annotations

from ckpt_backends.codec.values import Cut, Tagged, Value


def inside(value: Value) -> dict[Value, Value] | list[Value] | None:
    """The keys or items of a dict, list or object, of a cut one what is left; None for others."""
    while isinstance(value, Tagged | Cut):
        value = value.payload if isinstance(value, Tagged) else value.kept
    return value if isinstance(value, dict | list) else None


def item_count(value: Value) -> int:
    """How many items a value holds; 1 for a value that holds none by nature."""
    held = inside(value)
    return 1 if held is None else len(held)
