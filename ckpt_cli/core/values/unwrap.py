"""Look into a value through its wrappers."""

from __future__ import annotations

from ckpt_backends.codec.values import Cut, Tagged, Value


def unwrap(value: Value) -> dict[Value, Value] | list[Value] | None:
    """Return the dict or list inside a value, or the part of it that is left after a cut.

    Returns None for any other value.
    """
    while isinstance(value, Tagged | Cut):
        value = value.payload if isinstance(value, Tagged) else value.kept
    return value if isinstance(value, dict | list) else None


def item_count(value: Value) -> int:
    """Return the number of items in a value; 1 for a value that cannot have items."""
    held = unwrap(value)
    return 1 if held is None else len(held)


def fields_of(value: Value) -> dict[Value, Value]:
    """Return a dict, or the fields of an object; empty for any other value."""
    payload = value.payload if isinstance(value, Tagged) else value
    return payload if isinstance(payload, dict) else {}
