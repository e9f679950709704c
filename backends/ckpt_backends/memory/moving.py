"""Items on their way from one Store to another: their values as JSON, and how two items compare."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

from ckpt_backends.codec.limits import Limits, PastLimit
from ckpt_backends.codec.values import Cut, Tagged
from ckpt_backends.memory.protocol import Item, Namespace
from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.errors import CannotHold

PLAIN_BSON = "bson-plain"
"""The type of a value that is a BSON document."""
_DEEPEST = 90
"""Levels of nested containers. MongoDB's documents have at most 100."""
_ALL = Limits(value_bytes=1 << 30, nodes=1 << 30)
_MINUTE = 60


def as_json(value: TypedBytes | None) -> dict[str, Any]:
    """A value as plain Python objects. Raises `CannotHold` if JSON cannot represent it."""
    if value is None or value.problem:
        raise CannotHold(f"its value cannot be read: {value.problem if value else 'it is missing'}")
    try:
        if value.type == "json":
            found = json.loads(value.data, parse_constant=_no_constant)
        elif value.type == PLAIN_BSON:
            from ckpt_backends.codec.bson.documents import decode_bson

            found = decode_bson(value.data, _ALL, None)
        else:
            raise CannotHold(
                f"its value is of the type '{value.type}', which only RedisStore can hold"
            )
    except (ValueError, PastLimit, RecursionError) as error:
        raise CannotHold(f"its value cannot be read: {error}") from None
    if isinstance(found, Cut) or not isinstance(found, dict):
        raise CannotHold("its value is not a JSON object")
    check_leaves(found, _problem_of_json)
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _problem_of_json(leaf: object) -> str:
    match leaf:
        case float():
            return "" if math.isfinite(leaf) else f"has the number {leaf}, which JSON lacks"
        case str():
            return "" if is_unicode(leaf) else "has a text that is not Unicode"
        case None | bool() | int():
            return ""
    name = leaf.type if isinstance(leaf, Tagged) else type(leaf).__name__
    return f"has a value of the type '{name}', which JSON lacks"


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded: it has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_leaves(value: object, problem_of: Callable[[object], str]) -> None:
    """Raise `CannotHold` at the first leaf or key of an object that a function objects to."""
    for leaf in _leaves(value):
        if problem := problem_of(leaf):
            raise CannotHold(f"its value {problem}")


def _leaves(value: object) -> Iterator[object]:
    left: list[tuple[object, int]] = [(value, 1)]
    while left:
        one, depth = left.pop()
        if isinstance(one, dict | list) and depth > _DEEPEST:
            raise CannotHold(f"its value is nested deeper than {_DEEPEST} levels")
        if isinstance(one, dict):
            yield from one
            left += [(inner, depth + 1) for inner in one.values()]
        elif isinstance(one, list):
            left += [(inner, depth + 1) for inner in one]
        else:
            yield one


def compact(value: object) -> TypedBytes:
    """A value as JSON text, as the library of SQLite writes it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return TypedBytes("json", text.encode())


def check_whole(value: object, first: int, last: int) -> None:
    """Raise `CannotHold` for a whole number outside of a range."""

    def problem_of(leaf: object) -> str:
        if not isinstance(leaf, int) or first <= leaf <= last:
            return ""
        return "has a number of more than 64 bits"

    check_leaves(value, problem_of)


def check_labels(namespace: Namespace, separator: str) -> None:
    """Raise `CannotHold` for a namespace that LangGraph's Stores refuse, or cannot tell apart."""
    if not namespace or not all(namespace):
        raise CannotHold("its namespace has an empty label")
    for label in namespace:
        if separator in label:
            raise CannotHold(f"label '{label}' has a '{separator}', which separates labels there")
        if "\0" in label:
            raise CannotHold(f"label '{label}' has a NUL byte")


def lifetime_of(item: Item) -> float | None:
    """The time to live of an item in minutes: as stored, else from its times; None if unknown."""
    if item.expires_at is None or item.lifetime is not None:
        return None if item.expires_at is None else item.lifetime
    if item.updated_at is None:
        return None
    return round((item.expires_at - item.updated_at).total_seconds()) / _MINUTE


def digest_of(item: Item) -> bytes:
    """A digest of an item's value and times; equal JSON values have equal digests.

    The time of expiry is left out: servers report it a little differently each time.
    """
    value = item.value
    if value is not None and value.type == "json" and not value.problem:
        try:
            text = json.dumps(json.loads(value.data), sort_keys=True)
        except (ValueError, RecursionError):
            text = repr(value.data)
    else:
        text = repr(value)
    return blake2b(f"{item.created_at} {item.updated_at} {text}".encode(), digest_size=16).digest()


def whole_milliseconds(at: datetime) -> datetime:
    """A time without the digits after its milliseconds."""
    return at - timedelta(microseconds=at.microsecond % 1000)
