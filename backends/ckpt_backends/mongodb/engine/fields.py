"""Converts fields of documents, and thread ids to the forms in which they are stored."""

from __future__ import annotations

from collections.abc import Container, Iterable
from contextlib import suppress
from datetime import datetime, timedelta

from bson.raw_bson import RawBSONDocument

from ckpt_backends.model import TypedBytes


def text(value: object) -> str:
    """The field as text. An old or hostile store may have stored another type."""
    if isinstance(value, str):
        return str.__str__(value)  # `bson.code.Code` is an unhashable subclass of str
    return "" if value is None else str(value)


def metadata_of(value: object) -> TypedBytes:
    """Metadata as stored: a document, or the bytes that LangGraph.js stores."""
    if isinstance(value, RawBSONDocument):
        return TypedBytes("bson", bytes(value.raw))
    return TypedBytes("json", bytes(value) if isinstance(value, bytes) else b"null")


def number_of(thread_id: str) -> int | None:
    """The number as which a thread id may be stored; None if it can only be a text."""
    with suppress(ValueError):
        number = int(thread_id)
        if str(number) == thread_id and abs(number) < 1 << 63:
            return number
    return None


def stored_forms(thread_id: str) -> list[object]:
    """The forms in which a thread id may be stored, the most likely first; empty if none."""
    if not storable(thread_id):
        return []
    number = number_of(thread_id)
    return [thread_id] if number is None else [thread_id, number]


def form_of(thread_id: str, checkpoints: Container[object], writes: Container[object]) -> object:
    """The stored form of a thread id.

    `checkpoints` and `writes` contain the stored thread ids that have checkpoints and writes.
    """
    for found in (checkpoints, writes):
        for value in stored_forms(thread_id):
            if value in found:
                return value
    return thread_id


def storable(value: str) -> bool:
    """Whether MongoDB can store a text. Lone surrogates cannot be encoded in UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def storable_of(values: Iterable[str], *, newest: bool = True) -> list[str]:
    """The texts that MongoDB can store, without duplicates, in descending order if `newest`."""
    return sorted({one for one in values if storable(one)}, reverse=newest)


def later(at: object, lifetime: float | None) -> datetime | None:
    """When a document with this time expires; None if never, or if that is too late for Python."""
    if not isinstance(at, datetime) or lifetime is None:
        return None
    try:
        return at + timedelta(seconds=lifetime)
    except OverflowError:
        return None
