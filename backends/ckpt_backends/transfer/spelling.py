"""Spells JSON as engines that store it parsed do, so that it comes back as it was sent.

PostgreSQL (`jsonb`) and MySQL sort the names of an object by their length and then by their bytes:
https://www.postgresql.org/docs/current/datatype-json.html. What they spell in yet another way, such
as `1e9`, is left as it is; then only a comparison of the contents tells that nothing has changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

_FEW = 2
_MOST = 32
"""Names of an object whose order is remembered."""
_SHORT = 128
"""The longest text that is remembered: the metadata of many checkpoints is the same."""
_CONTAINERS = frozenset({dict, list})
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def spelled(value: Any) -> bytes:
    """The JSON text of a value. Raises TypeError, ValueError and RecursionError."""
    return _ENCODER.encode(in_order(value)).encode("utf-8", "surrogatepass")


def respelled(text: bytes) -> bytes:
    """A JSON text with its objects in order; as it is if it has special numbers or is invalid."""
    return _short_respelled(text) if len(text) <= _SHORT else _respelled(text)


def _respelled(text: bytes) -> bytes:
    try:
        return spelled(_DECODER.decode(text.decode()))
    except (ValueError, RecursionError):
        return text


_short_respelled = lru_cache(maxsize=4096)(_respelled)


def in_order(value: Any) -> Any:
    """A value with the names of all objects in order."""
    if value.__class__ is dict:
        names: Iterable[str] = value
        if len(value) > _MOST:
            names = sorted(value, key=by_length)
        elif len(value) >= _FEW:
            names = _names_in_order(tuple(value))
        if _CONTAINERS.isdisjoint(map(type, value.values())):
            return value if names is value else {name: value[name] for name in names}
        return {
            name: in_order(one) if (one := value[name]).__class__ in _CONTAINERS and one else one
            for name in names
        }
    if value.__class__ is list and not _CONTAINERS.isdisjoint(map(type, value)):
        return [in_order(one) if one.__class__ in _CONTAINERS else one for one in value]
    return value


@lru_cache(maxsize=4096)
def spelled_name(name: str) -> bytes:
    """The JSON text of a name and the colon after it."""
    return spelled(name) + b": "


@lru_cache(maxsize=256)
def _names_in_order(names: tuple[str, ...]) -> Sequence[str]:
    """A few names in order. The checkpoints of a graph have the same ones."""
    return tuple(sorted(names, key=by_length))


@lru_cache(maxsize=4096)
def by_length(name: str) -> tuple[int, bytes]:
    """What names are sorted by."""
    data = name.encode("utf-8", "surrogatepass")
    return len(data), data


def _float(text: str) -> float:
    number = float(text)
    if repr(number) != text or "e" in text or text == "-0.0":
        raise ValueError("engines spell this number differently")
    return number


def _constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_float=_float, parse_constant=_constant)
