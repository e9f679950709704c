"""Turn inert values into the Python values that they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ckpt_backends.codec.values import TUPLE, Cut, Tagged, Value

_SETS = {"builtins.set": set, "builtins.frozenset": frozenset}


def plain(value: Value) -> Any:
    """Return a value with its tuples, sets and times as Python has them.

    An object of any other class stays a `Tagged` with the name of the class, whose payload is
    plain. What cannot be read stays an `Opaque`, what exceeds a limit a `Cut`.
    """
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {_key(key): plain(one) for key, one in value.items()}
    if isinstance(value, Cut):
        return Cut(plain(value.kept), value.size, value.reason)
    if isinstance(value, Tagged):
        return _object(value)
    return value


def plain_values(values: Mapping[str, Value]) -> dict[str, Any]:
    """Return the values of channels, each as `plain` gives it."""
    return {name: plain(value) for name, value in values.items()}


def _object(value: Tagged) -> Any:
    payload = plain(value.payload)
    if value.type == TUPLE and isinstance(payload, list):
        return tuple(payload)
    if value.type in _SETS and isinstance(payload, list):
        try:
            return _SETS[value.type](payload)
        except TypeError:  # an item has no hash
            return Tagged(value.type, payload)
    if value.type == "datetime.datetime" and isinstance(payload, str):
        try:
            return datetime.fromisoformat(payload)
        except ValueError:
            return Tagged(value.type, payload)
    return Tagged(value.type, payload)


def _key(key: Value) -> Any:
    """Return a key of a dict. A key that has no hash any more stays as it is."""
    found = plain(key)
    try:
        hash(found)
    except TypeError:
        return key
    return found
