"""Converts pickled objects of known classes to the same values as the msgpack decoder.

Everything here works on inert values. The recognised forms are those that `__reduce__` of the
classes writes. Source: `Lib/datetime.py`, `Lib/copyreg.py`, `pydantic/main.py` and numpy's
`_reconstruct`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from ckpt_backends.codec.arrays import NDARRAY, ndarray
from ckpt_backends.codec.values import DELTA_SNAPSHOT, TUPLE, Tagged, Value

_LISTS = frozenset({"re.compile", "datetime.timedelta", "datetime.date", "datetime.timezone"})
"""Types with a list as payload even if they have only one argument. `pathlib` types have too."""
_SENDS = ("langgraph.types.Send", "langgraph.constants.Send")
_MAX_DIMENSIONS = 32
_MAX_LENGTH = 1 << 40


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything that a pickle passes to one object: arguments, states, items and entries."""

    args: list[Value]
    kwargs: Value = None
    states: list[Value] = field(default_factory=list)
    items: list[Value] = field(default_factory=list)
    entries: Value = None

    def named(self) -> dict[Value, Value]:
        """The parts that are not empty, by name."""
        found: dict[Value, Value] = {}
        if self.args:
            found["__args__"] = self.args
        if self.kwargs not in (None, {}):
            found["__kwargs__"] = self.kwargs
        if self.states:
            found["__state__"] = self.states[0] if len(self.states) == 1 else self.states
        if self.items:
            found["__items__"] = self.items
        if self.entries is not None:
            found["__entries__"] = self.entries
        return found

    def only_args(self) -> bool:
        return self.named().keys() <= {"__args__"}


def build(name: str, parts: Parts, room: int) -> Value:
    """The value of a call of `name`. `room` is the maximum number of array elements to create."""
    name = _ALIASES.get(name, name).replace("pathlib._local.", "pathlib.", 1)
    if name.startswith(("numpy.core.", "numpy._core.")):
        found = _numpy(name.rpartition(".")[2], parts, room)
    else:
        form = _FORMS.get(name)
        found = None if form is None else form(parts)
    return _plain(name, parts) if found is None else found


def _plain(name: str, parts: Parts) -> Tagged:
    """A `Tagged` object with its fields, arguments, items or entries as payload.

    If it has several of them, the payload is `Parts.named()`.
    """
    named = parts.named()
    if named.keys() <= {"__state__"} and len(parts.states) == 1:
        fields = _fields(parts.states[0])
        if fields is not None:
            if name in _SENDS and {"node", "arg"} <= fields.keys() and not fields.get("timeout"):
                return Tagged(name, [fields["node"], fields["arg"]])
            return Tagged(name, fields)
    if named.keys() <= {"__args__"}:
        if len(parts.args) == 1 and name not in _LISTS and not name.startswith("pathlib."):
            return Tagged(name, parts.args[0])
        return Tagged(name, parts.args)
    if len(named) == 1 and parts.items:
        return Tagged(name, parts.items)
    if len(named) == 1 and isinstance(parts.entries, dict):
        return Tagged(name, parts.entries)
    if named.keys() == {"__kwargs__"} and isinstance(parts.kwargs, dict):
        return Tagged(name, parts.kwargs)
    return Tagged(name, named)


def _fields(state: Value) -> dict[Value, Value] | None:
    """The fields that a state sets, for `__dict__`, slots and pydantic objects; otherwise None."""
    match state:
        case Tagged(type="builtins.tuple", payload=[None | dict() as own, dict() as slots]):
            state = {**(own or {}), **slots}
    if not isinstance(state, dict) or not all(isinstance(key, str) for key in state):
        return None
    inner = state.get("__dict__")
    if not isinstance(inner, dict) or not (
        "__pydantic_fields_set__" in state or "__fields_set__" in state
    ):
        return state
    extra = state.get("__pydantic_extra__")
    return {**inner, **(extra if isinstance(extra, dict) else {})}


def _datetime(parts: Parts) -> Value:
    match parts.args:
        case [bytes(data), *zone] if len(data) == 10 and len(zone) <= 1 and parts.only_args():
            at = _moment(data)
            if at is None:
                return None
            offset = _offset(zone[0]) if zone else None
            if zone and offset is None:
                return Tagged("datetime.datetime", [at.isoformat(), zone[0]])
            return Tagged("datetime.datetime", at.replace(tzinfo=offset).isoformat())
    return None


def _moment(data: bytes) -> datetime | None:
    """The datetime from its ten pickled bytes; the top bit of the month is the fold."""
    high, low, month, day, hour, minute, second = data[:7]
    microsecond = int.from_bytes(data[7:], "big")
    try:
        return datetime(  # noqa: DTZ001
            high << 8 | low, month & 127, day, hour, minute, second, microsecond, fold=month >> 7
        )
    except ValueError:
        return None


def _offset(zone: Value) -> timezone | None:
    """A fixed offset from UTC; None for other zones: a pickle does not contain their rules."""
    match zone:
        case Tagged(
            type="datetime.timezone",
            payload=[
                Tagged(
                    type="datetime.timedelta", payload=[int(days), int(seconds), int(microseconds)]
                ),
                *_,
            ],
        ):
            try:
                return timezone(timedelta(days, seconds, microseconds))
            except (ValueError, OverflowError):
                return None
    return None


def _date(parts: Parts) -> Value:
    match parts.args:
        case [bytes(data)] if len(data) == 4 and parts.only_args():
            return Tagged("datetime.date", [data[0] << 8 | data[1], data[2], data[3]])
    return None


def _time(parts: Parts) -> Value:
    match parts.args:
        case [bytes(data), *zone] if len(data) == 6 and len(zone) <= 1 and parts.only_args():
            return Tagged(
                "datetime.time",
                {
                    "hour": data[0] & 127,
                    "minute": data[1],
                    "second": data[2],
                    "microsecond": int.from_bytes(data[3:], "big"),
                    "tzinfo": zone[0] if zone else None,
                    "fold": data[0] >> 7,
                },
            )
    return None


def _uuid(parts: Parts) -> Value:
    match parts.states:
        case [{"int": int(number)}] if 0 <= number < 1 << 128 and not parts.args:
            return Tagged("uuid.UUID", f"{number:032x}")
    return None


def _encoded(parts: Parts) -> Value:
    """Bytes as pickle protocols 0 to 2 store them: a text to encode as Latin-1."""
    match parts.args:
        case [str(text), "latin1" | "latin-1"] if parts.only_args():
            try:
                return text.encode("latin-1")
            except UnicodeEncodeError:
                return None
    return None


def _bytes(parts: Parts) -> Value:
    return b"" if not parts.named() else None


def _bytearray(parts: Parts) -> Value:
    match parts.args:
        case [] if parts.only_args():
            return Tagged("builtins.bytearray", b"")
        case [bytes(data)] if parts.only_args():
            return Tagged("builtins.bytearray", data)
        case [str(), "latin-1"]:
            encoded = _encoded(parts)
            return None if encoded is None else Tagged("builtins.bytearray", encoded)
    return None


def _of_items(name: str) -> Callable[[Parts], Value]:
    """The form of a set or frozenset in old protocols: a call with a list."""

    def form(parts: Parts) -> Value:
        match parts.args:
            case [list(items)] if parts.only_args():
                return Tagged(name, items)
        return None

    return form


def _deque(parts: Parts) -> Value:
    match parts.args:
        case [] | [Tagged(type="builtins.tuple", payload=[])]:
            return Tagged("collections.deque", parts.items) if not parts.states else None
    return None


def _mapping(parts: Parts) -> Value:
    """An OrderedDict or defaultdict with entries only, as a dict (the same as in msgpack)."""
    factory = [] if not parts.args else parts.args[0]
    plain = factory == [] or (isinstance(factory, Tagged) and factory.type == "ckpt.global")
    if not plain or len(parts.args) > 1 or parts.states or parts.items:
        return None
    return {} if parts.entries is None else parts.entries


def _zone(parts: Parts) -> Value:
    match parts.args:
        case [str(key), *_] if parts.only_args():
            return Tagged("zoneinfo.ZoneInfo", key)
    return None


def _numpy(function: str, parts: Parts, room: int) -> Value:
    """An array from its state, or from a buffer (protocol 5)."""
    match function, parts.args, parts.states:
        case "_reconstruct", _, [
            Tagged(type="builtins.tuple", payload=[int(), shape, dtype, fortran, data])
        ]:
            return _array(dtype, shape, "F" if fortran is True else "C", data, room)
        case "_frombuffer", [data, dtype, shape, str(order)], []:
            return _array(dtype, shape, order, data, room)
        case "scalar", [dtype, bytes(data)], []:
            found = _array(dtype, Tagged(TUPLE, []), "C", data, room)
            return None if found is None else Tagged("numpy.generic", found.payload)
    return None


def _array(dtype: Value, shape: Value, order: str, data: Value, room: int) -> Tagged | None:
    kind, lengths = _dtype(dtype), _lengths(shape)
    if kind is None or lengths is None:
        return None
    if isinstance(data, Tagged) and data.type == "builtins.bytearray":
        data = data.payload
    if isinstance(data, bytes):
        return ndarray(kind, lengths, order, data, room)
    shown: list[Value] = list(lengths)
    return Tagged(NDARRAY, {"dtype": kind, "shape": shown, "order": order, "data": data})


def _lengths(shape: Value) -> list[int] | None:
    items = shape.payload if isinstance(shape, Tagged) and shape.type == TUPLE else None
    if not isinstance(items, list) or len(items) > _MAX_DIMENSIONS:
        return None
    lengths = [item for item in items if isinstance(item, int) and 0 <= item < _MAX_LENGTH]
    return lengths if len(lengths) == len(items) else None


def _dtype(dtype: Value) -> str | None:
    """The type of an array in numpy's notation, such as `<f8`."""
    match dtype:
        case Tagged(
            type="numpy.dtype",
            payload={
                "__args__": [str(kind), *_],
                "__state__": Tagged(type="builtins.tuple", payload=[int(), str(order), *_]),
            },
        ):
            return f"{order}{kind}"
    return None


_ALIASES: dict[str, str] = {
    "langgraph.checkpoint.serde.types._DeltaSnapshot": DELTA_SNAPSHOT,
    "re._compile": "re.compile",
    "zoneinfo.ZoneInfo._unpickle": "zoneinfo.ZoneInfo",
}
_FORMS: dict[str, Callable[[Parts], Any]] = {
    "_codecs.encode": _encoded,
    "builtins.bytearray": _bytearray,
    "builtins.bytes": _bytes,
    "builtins.frozenset": _of_items("builtins.frozenset"),
    "builtins.set": _of_items("builtins.set"),
    "collections.OrderedDict": _mapping,
    "collections.defaultdict": _mapping,
    "collections.deque": _deque,
    "datetime.date": _date,
    "datetime.datetime": _datetime,
    "datetime.time": _time,
    "uuid.UUID": _uuid,
    "zoneinfo.ZoneInfo": _zone,
}
