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
            found = _SETS[value.type](payload)
        except TypeError:  # an item has no hash
            return Tagged(value.type, payload)
        # A set of JavaScript may have both 1 and true, which are equal here.
        return found if len(found) == len(payload) else Tagged(value.type, payload)
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


def to_json(value: Any) -> Any:
    """Return a value, or a dict of them such as `CheckpointHandle.values`, in its JSON form.

    `docs/json.md` describes the form; `json.dumps` takes it.
    """
    from ckpt_backends import codec

    return codec.to_json(_inert(value))


def _inert(value: Any) -> Value:
    """Reverse `plain`."""
    if isinstance(value, list):
        return [_inert(one) for one in value]
    if isinstance(value, dict):
        return {_inert(key): _inert(one) for key, one in value.items()}
    if isinstance(value, Cut):
        return Cut(_inert(value.kept), value.size, value.reason)
    if isinstance(value, Tagged):
        return Tagged(value.type, _inert(value.payload))
    if isinstance(value, tuple):
        return Tagged(TUPLE, [_inert(one) for one in value])
    if isinstance(value, (set, frozenset)):
        # Sorted, since the order of a set differs from run to run.
        items = sorted(map(_inert, value), key=repr)
        return Tagged(f"builtins.{type(value).__name__}", items)
    if isinstance(value, datetime):
        return Tagged("datetime.datetime", value.isoformat())
    inert: Value = value
    return inert
