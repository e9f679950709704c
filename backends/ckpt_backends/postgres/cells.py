"""Loads cells of a server that is not trusted.

psycopg's loaders in C read as many bytes as a type has, without a look at how many were sent; a
hostile server can make them crash. So cells of other types than text and bytes are loaded here, and
no other types are accepted.
"""

from __future__ import annotations

import json
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import prod
from typing import Any, ClassVar
from uuid import UUID

import psycopg
from psycopg import Connection, pq
from psycopg.adapt import Loader
from psycopg.postgres import types

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_HEAD, _DIMENSION, _LENGTH = struct.Struct("!iiI"), struct.Struct("!ii"), struct.Struct("!i")
_TEXTS = ("text", "varchar", "name", "bpchar")
_NUMBERS = {"int2": "!h", "int4": "!i", "int8": "!q", "float4": "!f", "float8": "!d", "bool": "!?"}
_OTHERS = ("bytea", "timestamptz", "timestamp", "date", "uuid", "json", "jsonb", "numeric")
_OIDS = {name: types[name].oid for name in (*_TEXTS, *_NUMBERS, *_OTHERS)}
_ARRAYS = {types[name].array_oid: oid for name, oid in _OIDS.items()}
_KNOWN = frozenset((*_OIDS.values(), *_ARRAYS))


class _Number(Loader):
    format = pq.Format.BINARY
    _form: ClassVar[struct.Struct]

    def load(self, data: Any) -> Any:
        (found,) = self._form.unpack(data)
        return found


class _Time(Loader):
    format = pq.Format.BINARY

    def load(self, data: Any) -> datetime:
        (found,) = struct.unpack("!q", data)
        return _EPOCH + timedelta(microseconds=found)


class _NaiveTime(_Time):
    def load(self, data: Any) -> datetime:
        return super().load(data).replace(tzinfo=None)


class _Date(Loader):
    format = pq.Format.BINARY

    def load(self, data: Any) -> date:
        (found,) = struct.unpack("!i", data)
        return _EPOCH.date() + timedelta(days=found)


class _Uuid(Loader):
    format = pq.Format.BINARY

    def load(self, data: Any) -> UUID:
        return UUID(bytes=bytes(data))


class _Json(Loader):
    format = pq.Format.BINARY

    def load(self, data: Any) -> Any:
        return json.loads(bytes(data))


class _Jsonb(_Json):
    def load(self, data: Any) -> Any:
        if bytes(data[:1]) != b"\x01":
            raise ValueError("unknown version of jsonb")
        return super().load(data[1:])


class _Decimal(Loader):
    format = pq.Format.BINARY

    def load(self, data: Any) -> Decimal:
        count, weight, sign, scale = struct.unpack_from("!hhHH", data)
        digits = struct.unpack(f"!{count}h", data[8:])
        if sign not in {0, 0x4000} or any(not 0 <= one < 10000 for one in digits):
            raise ValueError("not a number")
        found = int("".join(f"{one:04}" for one in digits) or "0")
        shift = 4 * (weight - count + 1) + scale
        shifted = found * 10**shift if shift >= 0 else found // 10**-shift
        return Decimal((int(sign != 0), tuple(map(int, str(shifted))), -scale))


class _Array(Loader):
    """An array with one or two dimensions, or an empty one."""

    format = pq.Format.BINARY

    def load(self, data: Any) -> list[Any]:
        raw = bytes(data)
        dimensions, _, oid = _HEAD.unpack_from(raw)
        if oid not in _LOADERS or not 0 <= dimensions <= 2:
            raise ValueError("not an array of ckpt's queries")
        at = _HEAD.size
        sizes = []
        for _ in range(dimensions):
            sizes.append(_DIMENSION.unpack_from(raw, at)[0])
            at += _DIMENSION.size
        if not sizes:
            return []
        if min(sizes) < 1:
            raise ValueError("a dimension without items")
        found = []
        for _ in range(prod(sizes)):
            (length,) = _LENGTH.unpack_from(raw, at)
            at += _LENGTH.size
            if not -1 <= length <= len(raw) - at:
                raise ValueError("an item is longer than its array")
            found.append(None if length < 0 else _LOADERS[oid](raw[at : at + length]))
            at += max(0, length)
        if len(sizes) == 1:
            return found
        return [found[start : start + sizes[1]] for start in range(0, len(found), sizes[1])]


def _text(data: bytes) -> str:
    return data.decode()


_CLASSES: dict[int, type[Loader]] = {
    _OIDS[name]: type(f"_{name}", (_Number,), {"_form": struct.Struct(form)})
    for name, form in _NUMBERS.items()
}
_CLASSES |= {
    _OIDS["timestamptz"]: _Time,
    _OIDS["timestamp"]: _NaiveTime,
    _OIDS["date"]: _Date,
    _OIDS["uuid"]: _Uuid,
    _OIDS["json"]: _Json,
    _OIDS["jsonb"]: _Jsonb,
    _OIDS["numeric"]: _Decimal,
}
_LOADERS = {
    oid: _CLASSES[oid](oid).load if oid in _CLASSES else bytes if name == "bytea" else _text
    for name, oid in _OIDS.items()
}


def use_loaders(driver: Connection[Any]) -> None:
    """Load the cells of this connection with the loaders of this module."""
    for oid, kind in _CLASSES.items():
        driver.adapters.register_loader(oid, kind)
    for oid in _ARRAYS:
        driver.adapters.register_loader(oid, _Array)


def check_types(result: Any) -> None:
    """Raise `psycopg.DataError` if a result has columns of other types, or in text form."""
    for column in range(result.nfields):
        if result.ftype(column) not in _KNOWN or result.fformat(column) != pq.Format.BINARY:
            raise psycopg.DataError("the server's answer is malformed")
