"""What the operand of a condition means for the kind of its field."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ckpt_backends.errors import UsageError
from ckpt_backends.model import Status
from ckpt_cli.core.filters.expressions import Operand
from ckpt_cli.core.filters.fields import FieldKind
from ckpt_cli.core.times import parse_duration

EPOCH, SECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(seconds=1)
_NUMBER = r"(?a)-?(?:0|[1-9]\d*)(?P<rest>\.\d+)?(?P<power>[eE][+-]?\d{1,3})?"
_SIZE = r"(?ai)(\d+(?:\.\d+)?) ?([a-z]*)"
_UNITS: Mapping[str, int] = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1000**n for n, letter in enumerate("kmgt", 1)},
    **{f"{letter}ib": 1024**n for n, letter in enumerate("kmgt", 1)},
}


class Wanted(NamedTuple):
    """The values that an operand is equal to; a word without quotes may have several readings."""

    text: str | None = None
    number: int | float | None = None
    truth: bool | None = None
    null: bool = False


def read_operand(operand: Operand, kind: FieldKind) -> Wanted:
    """Return what an operand means. Raises `UsageError` if it means nothing for this kind."""
    if operand.text == "null" and not operand.quoted:
        return Wanted(null=True)
    return _READERS[kind](operand)


def _text(operand: Operand) -> Wanted:
    return Wanted(text=operand.text)


def _value(operand: Operand) -> Wanted:
    """Read a word without quotes as everything that reads the same: `42` is a number or a text."""
    if operand.quoted:
        return Wanted(text=operand.text)
    truth = {"true": True, "false": False}.get(operand.text)
    return Wanted(operand.text, _number(operand.text), truth)


def _only_number(operand: Operand) -> Wanted:
    number = _number(operand.text)
    if number is None:
        raise UsageError(f"'{operand.text}' is not a number", hint="use a number such as 10")
    return Wanted(number=number)


def _size(operand: Operand) -> Wanted:
    found = re.fullmatch(_SIZE, operand.text)
    unit = _UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise UsageError(f"'{operand.text}' is not a size", hint="use 512, 100KiB, 10MiB or 1.5GiB")
    return Wanted(number=float(found[1]) * unit)


def _duration(operand: Operand) -> Wanted:
    return Wanted(number=parse_duration(operand.text).total_seconds())


def _time(operand: Operand) -> Wanted:
    """Read the form to which `parse_filter` brings all times: ISO 8601 with a time zone."""
    moment = datetime.fromisoformat(operand.text)
    return Wanted(number=(moment - EPOCH) / SECOND)


def _status(operand: Operand) -> Wanted:
    if operand.text not in set(Status):
        hint = f"use one of {', '.join(Status)}"
        raise UsageError(f"no status '{operand.text}'", hint=hint)
    return Wanted(text=operand.text)


_READERS: Mapping[FieldKind, Callable[[Operand], Wanted]] = {
    FieldKind.TEXT: _text,
    FieldKind.VALUE: _value,
    FieldKind.NUMBER: _only_number,
    FieldKind.SIZE: _size,
    FieldKind.DURATION: _duration,
    FieldKind.TIME: _time,
    FieldKind.STATUS: _status,
}


def _number(text: str) -> int | float | None:
    found = re.fullmatch(_NUMBER, text)
    if found is None:
        return None
    return float(text) if found["rest"] or found["power"] else int(text)
