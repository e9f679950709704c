"""A filter as a tree, and the text that is parsed to the same tree."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
import json
import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from ckpt_cli.core.filters.fields import FIELDS, Operator, ReadFrom
from ckpt_cli.core.values.paths import All, Path

RESERVED = ("and", "or", "not", "in", "like")
_SPECIAL = r"\s()'\",=<>!~"
KEY_PART = rf"[^{_SPECIAL}.\[\]\\]+"
"""Regular expression of a name in a field, and of a step of a path, without quotes."""
WORD_END = rf"(?![^{_SPECIAL}])"
WORD = rf"(?!(?i:{'|'.join(RESERVED)}){WORD_END})[^{_SPECIAL}][^\s()'\",]*"
"""Regular expression of a value without quotes."""


class Field(NamedTuple):
    """What a condition asks about: a name of `FIELDS`, and a path if this field has one."""

    name: str
    path: Path = ()


class Operand(NamedTuple):
    """What a field is compared with, as it was typed."""

    text: str
    quoted: bool = False
    """Whether it can only mean a text, and not a number, true, false or null."""


class Condition(NamedTuple):
    """A comparison of one field."""

    field: Field
    operator: Operator
    operands: tuple[Operand, ...]
    """One, or for `in` at least one."""


class And(NamedTuple):
    """All parts hold."""

    parts: tuple["Filter", ...]
    """At least two."""
    word: Literal["and"] = "and"
    """It tells an `And` from an `Or`: tuples are equal if their fields are."""


class Or(NamedTuple):
    """At least one part holds."""

    parts: tuple["Filter", ...]
    """At least two."""
    word: Literal["or"] = "or"


class Not(NamedTuple):
    """The part does not hold."""

    part: "Filter"


Filter: TypeAlias = Condition | And | Or | Not


def all_of(filters: Iterable[Filter]) -> Filter | None:
    """Join filters by `and`; None if there are none."""
    parts = tuple(filters)
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else And(parts)


def parts_of(expression: Filter) -> tuple[Filter, ...]:
    """Return the filters that an expression consists of; none for a condition."""
    match expression:
        case And(parts) | Or(parts):
            return parts
        case Not(part):
            return (part,)
        case Condition():
            return ()


def fields_in(expression: Filter) -> Iterator[Field]:
    """Yield the field of each condition."""
    if isinstance(expression, Condition):
        yield expression.field
    for part in parts_of(expression):
        yield from fields_in(part)


def sources_of(expression: Filter) -> frozenset[ReadFrom]:
    """Return what must be read of a thread to decide about it."""
    return frozenset(FIELDS[field.name].source for field in fields_in(expression))


def format_filter(expression: Filter) -> str:
    """Return the text of a filter; `parse_filter` reverses it."""
    match expression:
        case And(parts):
            return " and ".join(map(_part, parts))
        case Or(parts):
            return " or ".join(map(_part, parts))
        case Not(part):
            return f"not {_part(part)}"
        case Condition(field, Operator.IN, operands):
            return f"{format_field(field)} in ({', '.join(map(_operand, operands))})"
        case Condition(field, operator, (operand,)):
            return f"{format_field(field)} {operator} {_operand(operand)}"
        case Condition():
            raise ValueError("only `in` compares with several operands")


def format_field(field: Field) -> str:
    """Return a field as it is typed, such as `metadata.user` or `values.messages[-1].content`."""
    return field.name + "".join(map(_step, field.path))


def _part(expression: Filter) -> str:
    text = format_filter(expression)
    return f"({text})" if isinstance(expression, And | Or) else text


def _step(step: str | int | All) -> str:
    if isinstance(step, All):
        return "[]"
    if isinstance(step, int):
        return f"[{step}]"
    if re.fullmatch(KEY_PART, step):
        return f".{step}"
    return f"[{json.dumps(step, ensure_ascii=False)}]"


def _operand(operand: Operand) -> str:
    if not operand.quoted and re.fullmatch(WORD, operand.text):
        return operand.text
    escaped = operand.text.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'
