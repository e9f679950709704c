"""Compare one value with the operands of a condition."""

from __future__ import annotations

import json
import operator as operators
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from ckpt_backends.codec import to_json
from ckpt_backends.codec.values import Cut, Tagged, Value
from ckpt_backends.errors import UsageError
from ckpt_cli.core.filters.expressions import Condition, Operand
from ckpt_cli.core.filters.fields import FIELDS, FieldKind, Operator
from ckpt_cli.core.filters.operands import Wanted, read_operand
from ckpt_cli.core.search.patterns import FASTER, compile_pattern

Test = Callable[[Value], bool]
"""Returns whether one value matches."""

_ORDERS: Mapping[Operator, Callable[[Any, Any], bool]] = {
    Operator.LESS: operators.lt,
    Operator.AT_MOST: operators.lt,
    Operator.GREATER: operators.gt,
    Operator.AT_LEAST: operators.gt,
}
_OR_EQUAL = (Operator.AT_MOST, Operator.AT_LEAST)
_JSON_STARTS = ("[", "{")
_UUID_DIGITS = 32


def value_test(condition: Condition) -> Test:
    """Return the test for one value of a field; that of `!=` is the test of `=`.

    Raises `UsageError` if an operand does not fit the field.
    """
    kind, operator = FIELDS[condition.field.name].kind, condition.operator
    first = condition.operands[0]
    match operator:
        case Operator.LIKE:
            test = _like(first.text)
        case Operator.REGEX:
            test = _regex(first.text)
        case Operator.EQUAL | Operator.UNEQUAL | Operator.IN:
            equal = [_equal(each, kind) for each in condition.operands]
            test = equal[0] if len(equal) == 1 else lambda value: any(one(value) for one in equal)
        case _:
            test = _ordered(operator, first, kind)
    return lambda value: test(_plain(value))


def _plain(value: Value) -> Value:
    """Return the text or number inside an object such as a date, a UUID or an enum."""
    inner, name = value, ""
    while isinstance(inner, Tagged | Cut):
        name = inner.type if isinstance(inner, Tagged) else name
        inner = inner.payload if isinstance(inner, Tagged) else inner.kept
    match name, inner:
        case "datetime.date", [int(year), int(month), int(day)]:
            return f"{year:04}-{month:02}-{day:02}"
        case "uuid.UUID", str(digits) if len(digits) == _UUID_DIGITS:
            return "-".join(digits[a:b] for a, b in pairwise((0, 8, 12, 16, 20, 32)))
        case "decimal.Decimal", str(text):
            return _number(text)
    return inner if isinstance(inner, str | int | float) else value


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _equal(operand: Operand, kind: FieldKind) -> Test:
    wanted = read_operand(operand, kind)
    is_json = not operand.quoted and operand.text.startswith(_JSON_STARTS)

    def test(value: Value) -> bool:
        match value:
            case None:
                return wanted.null
            case bool():
                return value is wanted.truth
            case int() | float():
                return wanted.number is not None and value == wanted.number
            case str():
                return value == wanted.text
            case list() | dict():
                return is_json and json.dumps(to_json(value), ensure_ascii=False) == wanted.text
            case _:
                return False

    return test


def _ordered(operator: Operator, operand: Operand, kind: FieldKind) -> Test:
    """Return a test by order: numbers with numbers, texts with texts by Unicode."""
    wanted = read_operand(operand, kind)
    if wanted.null:
        raise UsageError(f"null has no '{operator}'", hint="use = null or != null")
    compare, equal = _ORDERS[operator], _equal(operand, kind)

    def test(value: Value) -> bool:
        if operator in _OR_EQUAL and equal(value):
            return True
        other = _comparable(value, wanted)
        return other is not None and compare(value, other)

    return test


def _comparable(value: Value, wanted: Wanted) -> str | int | float | None:
    """Return the reading of the operand that has the type of a value; None if there is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return wanted.number
    return wanted.text if isinstance(value, str) and wanted.number is None else None


def _like(pattern: str) -> Test:
    r"""Return a test for an SQL pattern, which never tries a part of a text again.

    `%` is any text, `_` one character; `\%` and `\_` are these characters.
    """
    pieces = [""]
    for part in re.findall(r"\\[%_\\]|.", pattern, re.DOTALL):
        if part == "%":
            pieces.append("")
        else:
            pieces[-1] += "." if part == "_" else re.escape(part[-1])
    if len(pieces) == 1:
        whole = re.compile(pieces[0], re.DOTALL)
        return lambda value: isinstance(value, str) and whole.fullmatch(value) is not None
    first, *middle, last = pieces
    begins, ends = re.compile(first, re.DOTALL), re.compile(rf"{last}\Z", re.DOTALL)
    inner = [re.compile(piece, re.DOTALL) for piece in middle]
    length = len(re.findall(r"\\.|.", last, re.DOTALL))

    def test(value: Value) -> bool:
        if not isinstance(value, str) or (found := begins.match(value)) is None:
            return False
        for one in inner:
            if (found := one.search(value, found.end())) is None:
                return False
        return ends.match(value, max(len(value) - length, found.end())) is not None

    return test


def _regex(pattern: str) -> Test:
    """Return a test that searches with a time limit.

    It raises `UsageError` past the limit: whoever acts on the threads must know the answer.
    """
    find = compile_pattern(
        pattern, fixed=False, ignore_case=False, hint="like searches with % and _"
    )

    def test(value: Value) -> bool:
        found = isinstance(value, str) and find(value) is not None
        if find.stopped:
            raise UsageError(f"the pattern '{pattern}' takes too long", hint=FASTER)
        return found

    return test
