"""The language of `--where`: fields, operators, and the expression that a text means."""

from __future__ import annotations

import json
import operator as operators
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from enum import Enum, StrEnum
from functools import cache, reduce
from itertools import pairwise
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from ckpt_backends.codec import to_json
from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.errors import NotFound, ParseError, UsageError
from ckpt_backends.model import ALL_THREADS, Status, ThreadBounds
from ckpt_cli.core.search import FASTER, compile_pattern
from ckpt_cli.core.state import ERROR, INTERRUPT
from ckpt_cli.core.times import parse_duration, parse_time
from ckpt_cli.core.values import All, Path, parse_path, select

if TYPE_CHECKING:
    from lark import Lark


class Operator(StrEnum):
    """How a condition compares. `!=` is the opposite of `=`."""

    EQUAL = "="
    UNEQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="
    IN = "in"
    LIKE = "like"
    REGEX = "~"


class FieldKind(Enum):
    """What values a field has, and so what may be written after an operator."""

    TEXT = "text"
    STATUS = "a status"
    VERDICT = "a verdict"
    NUMBER = "a number"
    SIZE = "a size"
    DURATION = "a duration"
    TIME = "a time"
    VALUE = "a value"
    """A part of the metadata or of the state: text, a number, true, false or null."""


class ReadFrom(Enum):
    """What must be read of a thread to know a field, cheapest first."""

    INDEX = "index"
    HEAD = "head"
    SIZE = "size"
    METADATA = "metadata"
    """The metadata of all checkpoints that have a key."""
    STATE = "state"
    """The state at the head, and so the head, too."""
    COMPAT = "compat"
    """All that a resume reads, and a description of the new graph."""


class FieldSpec(NamedTuple):
    """One field, as users see it."""

    kind: FieldKind
    summary: str
    source: ReadFrom = ReadFrom.INDEX

    is_whole: bool = False
    """Whether the name alone means something, too, where a path may follow."""

    @property
    def has_path(self) -> bool:
        """Whether the name may be followed by a path."""
        return self.kind is FieldKind.VALUE

    @property
    def needs_path(self) -> bool:
        """Whether the name must be followed by a path."""
        return self.has_path and not self.is_whole

    @property
    def operators(self) -> tuple[Operator, ...]:
        """The operators that make sense for this kind."""
        return _OPERATORS.get(self.kind, _ORDERED)


_ALL = tuple(Operator)
_ORDERED = tuple(one for one in Operator if one not in {Operator.LIKE, Operator.REGEX})
_OPERATORS: Mapping[FieldKind, tuple[Operator, ...]] = {
    FieldKind.TEXT: _ALL,
    FieldKind.VALUE: _ALL,
    FieldKind.STATUS: (Operator.EQUAL, Operator.UNEQUAL, Operator.IN),
    FieldKind.VERDICT: (Operator.EQUAL, Operator.UNEQUAL, Operator.IN),
}

FIELDS: Mapping[str, FieldSpec] = {
    "thread": FieldSpec(FieldKind.TEXT, "thread id"),
    "status": FieldSpec(FieldKind.STATUS, "any of the conditions of the thread", ReadFrom.HEAD),
    "next": FieldSpec(FieldKind.TEXT, "any of the nodes that run next", ReadFrom.HEAD),
    "error": FieldSpec(FieldKind.TEXT, "error that blocks the thread", ReadFrom.HEAD),
    "why": FieldSpec(FieldKind.TEXT, "why it does not go on, such as killed", ReadFrom.HEAD),
    "question": FieldSpec(
        FieldKind.VALUE, "first question that waits for an answer", ReadFrom.HEAD, is_whole=True
    ),
    "source": FieldSpec(
        FieldKind.TEXT, "how the head was made: input, loop, update, fork", ReadFrom.HEAD
    ),
    "step": FieldSpec(FieldKind.NUMBER, "step of the head", ReadFrom.HEAD),
    "age": FieldSpec(FieldKind.DURATION, "time since the oldest checkpoint"),
    "idle": FieldSpec(FieldKind.DURATION, "time since the newest checkpoint"),
    "first_at": FieldSpec(FieldKind.TIME, "time of the oldest checkpoint"),
    "last_at": FieldSpec(FieldKind.TIME, "time of the newest checkpoint"),
    "checkpoints": FieldSpec(FieldKind.NUMBER, "number of checkpoints"),
    "bytes": FieldSpec(FieldKind.SIZE, "stored size of the thread", ReadFrom.SIZE),
    "user": FieldSpec(FieldKind.TEXT, "user of the thread"),
    "metadata": FieldSpec(FieldKind.VALUE, "metadata of the newest that has KEY", ReadFrom.HEAD),
    "any": FieldSpec(FieldKind.VALUE, "metadata of any checkpoint", ReadFrom.METADATA),
    "values": FieldSpec(FieldKind.VALUE, "state at the head", ReadFrom.STATE),
    "compat": FieldSpec(
        FieldKind.VERDICT, "what the new graph of --compat does to it", ReadFrom.COMPAT
    ),
}
"""In the order in which they are listed to users."""
METADATA, VALUES, ANY, COMPAT = "metadata", "values", "any", "compat"


_MEANT: Mapping[str, str] = {
    **dict.fromkeys(("id", "thread_id", "name"), "thread"),
    **dict.fromkeys(("created", "created_at", "started", "first"), "first_at"),
    **dict.fromkeys(("updated", "updated_at", "modified", "last", "ts", "time"), "last_at"),
    **dict.fromkeys(("state", "conditions"), "status"),
    **dict.fromkeys(("size",), "bytes"),
    **dict.fromkeys(("node", "nodes"), "next"),
    **dict.fromkeys(("channel", "channels", "value", "messages"), "values.CHANNEL"),
    **dict.fromkeys(("errors", "exception", "failed"), "error"),
    **dict.fromkeys(("interrupt", "interrupts", "questions", "waiting"), "question"),
    **dict.fromkeys(("user_id", "owner", "tenant"), "metadata.KEY"),
}
"""What people may write for a field."""


def nearest_field(name: str) -> str | None:
    """Return the field that is probably meant by a name that is none; None if unknown."""
    written = name.lower()
    if written in _MEANT:
        return _MEANT[written]
    return next(iter(get_close_matches(written, FIELDS, n=1)), None)


def field_names() -> str:
    """Return the names of all fields for a hint, such as `thread, ..., metadata.KEY`."""
    return ", ".join(map(_with_path, FIELDS))


def _with_path(name: str, key: str = "KEY") -> str:
    """Return a field with the path that it needs, ending with a key."""
    begin = f"{ANY}.{METADATA}" if name == ANY else name
    return f"{begin}.{key}" if FIELDS[name].needs_path else name


RESERVED = ("and", "or", "not", "in", "like")
_SPECIAL = r"\s()'\",=<>!~"
KEY_PART = rf"[^{_SPECIAL}.\[\]\\]+"
"""Regular expression of a name in a field, and of a step of a path, without quotes."""
WORD_END = rf"(?![^{_SPECIAL}])"
WORD = rf"(?!(?i:{'|'.join(RESERVED)}){WORD_END})[^{_SPECIAL}][^\s()'\",]*"
"""Regular expression of a value without quotes."""


class FilterField(NamedTuple):
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

    field: FilterField
    operator: Operator
    operands: tuple[Operand, ...]
    """One, or for `in` at least one."""


class And(NamedTuple):
    """All parts hold."""

    parts: tuple[Filter, ...]
    """At least two."""
    word: Literal["and"] = "and"
    """It tells an `And` from an `Or`: tuples are equal if their fields are."""


class Or(NamedTuple):
    """At least one part holds."""

    parts: tuple[Filter, ...]
    """At least two."""
    word: Literal["or"] = "or"


class Not(NamedTuple):
    """The part does not hold."""

    part: Filter


Filter: TypeAlias = Condition | And | Or | Not


def all_of(filters: Iterable[Filter]) -> Filter | None:
    """Join filters by `and`; None if there are none."""
    parts = tuple(filters)
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else And(parts)


def equal(name: str, text: str) -> Condition:
    """Return the condition that a field without a path is this text, or the number it may mean."""
    is_word = text not in {"null", "true", "false"}
    return Condition(FilterField(name), Operator.EQUAL, (Operand(text, quoted=not is_word),))


def records_of(expression: Filter) -> tuple[Filter, ...]:
    """Return the filters that an expression consists of; none for a condition."""
    match expression:
        case And(parts) | Or(parts):
            return parts
        case Not(part):
            return (part,)
        case Condition():
            return ()


def fields_in(expression: Filter) -> Iterator[FilterField]:
    """Yield the field of each condition."""
    if isinstance(expression, Condition):
        yield expression.field
    for part in records_of(expression):
        yield from fields_in(part)


def asking(expression: Filter, name: str, field: FilterField) -> Filter:
    """Return a filter that asks for a field in place of the one with this name."""
    match expression:
        case Condition() if expression.field.name == name:
            return expression._replace(field=field)
        case And(parts) | Or(parts):
            return expression._replace(parts=tuple(asking(one, name, field) for one in parts))
        case Not(part):
            return Not(asking(part, name, field))
    return expression


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


def format_field(field: FilterField) -> str:
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


ALIAS_NAME = r"\w[\w-]*"
"""Regular expression of the name of an alias, which follows the `@`."""


class FilterAlias(NamedTuple):
    """A filter with a name."""

    text: str
    origin: str = ""
    """The configuration file that defines it."""


def no_alias(name: str) -> FilterAlias:
    """Raise `UsageError`: there are no aliases."""
    hint = f'define it in ckpt.toml: [filters] and {name} = "status = error"'
    raise UsageError(f"no filter '@{name}'", hint=hint)


class FilterTerms:
    """How the words of a filter are read."""

    __slots__ = ("alias", "now", "zone")

    def __init__(
        self,
        alias: Callable[[str], FilterAlias] = no_alias,
        now: datetime | None = None,
        zone: tzinfo = UTC,
    ) -> None:
        self.alias: Final = alias
        """Returns an alias by its name. Raises `UsageError` for one that is unknown or not
        allowed.
        """
        self.now: Final = now or datetime.now(UTC)
        self.zone: Final = zone
        """The time zone of times without one."""


def is_alias_name(text: str) -> bool:
    """Return whether an alias may have this name."""
    return re.fullmatch(ALIAS_NAME, text) is not None


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


def _verdict(operand: Operand) -> Wanted:
    from ckpt_cli.core.compat import CompatVerdict  # late: few filters ask for it

    if operand.text not in set(CompatVerdict):
        hint = f"use one of {', '.join(CompatVerdict)}; in quotes if it has a blank"
        raise UsageError(f"no verdict '{operand.text}'", hint=hint)
    return Wanted(text=operand.text)


_READERS: Mapping[FieldKind, Callable[[Operand], Wanted]] = {
    FieldKind.TEXT: _text,
    FieldKind.VALUE: _value,
    FieldKind.NUMBER: _only_number,
    FieldKind.SIZE: _size,
    FieldKind.DURATION: _duration,
    FieldKind.TIME: _time,
    FieldKind.STATUS: _status,
    FieldKind.VERDICT: _verdict,
}


def _number(text: str) -> int | float | None:
    found = re.fullmatch(_NUMBER, text)
    if found is None:
        return None
    return float(text) if found["rest"] or found["power"] else int(text)


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
            return _number_or_text(text)
    return inner if isinstance(inner, str | int | float) else value


def _number_or_text(text: str) -> float | str:
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


_BRACKETS = r"\[\s*(?:-?\d{1,18}|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')?\s*\]"
_STRING = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
_FIELD = rf"(?!@){KEY_PART}(?:\.{KEY_PART}|\.(?:{_STRING})|\.?{_BRACKETS})*"
_OPERATOR = "[=<>!~]+"
_NOT, _LIKE = (rf"(?i:{one}){WORD_END}" for one in ("not", "like"))
_GRAMMAR = rf"""
?start: either
?either: both (_OR both)*
?both: single (_AND single)*
?single: condition
    | ALIAS -> alias
    | NOT single -> negation
    | _LPAR either _RPAR
condition: FIELD OPERATOR value
    | FIELD NOT? LIKE value
    | FIELD NOT? IN _LPAR value (_COMMA value)* _RPAR
?value: WORD | STRING

ALIAS.2: /@{ALIAS_NAME}/
FIELD: /{_FIELD}/s
OPERATOR: /{_OPERATOR}/
WORD: /{WORD}/
STRING: /{_STRING}/s
_LPAR: "("
_RPAR: ")"
_COMMA: ","
_AND.2: /and{WORD_END}/i
_OR.2: /or{WORD_END}/i
NOT.2: /{_NOT}/
IN.2: /in{WORD_END}/i
LIKE.2: /{_LIKE}/
%ignore /\s+/
"""


@cache
def grammar() -> Lark:
    """Return the parser; its trees have the rules `either`, `both`, `negation`, `alias` and
    `condition`."""
    # Takes 40 ms, so it is imported only if there is a filter.
    from lark import Lark

    return Lark(_GRAMMAR, parser="lalr", maybe_placeholders=False)


if TYPE_CHECKING:
    from lark import Token, Tree

    Node = Tree[Token]

_LONGEST = 4000
"""Characters of a filter."""
_DEEPEST = 50
"""Levels of brackets, `not` and aliases."""
_MOST = 1000
"""Comparisons. A text has room for fewer, but aliases may name each other many times."""
_SHORTHAND = re.compile(rf"(?!@)(?P<key>{KEY_PART}(?:\.{KEY_PART})*)=(?P<value>(?:{WORD})?)")
_QUOTES = "put text with blanks, commas or brackets in quotes, such as 'two words'"
_EXPECTED = (
    ("FIELD", "a field", f"fields: {field_names()}"),
    ("OPERATOR", "an operator", f"operators: {' '.join(Operator)}"),
    ("WORD", "a value", _QUOTES),
    ("IN", "'in' or 'like'", "write not before the field, or not in, or not like"),
    ("_LPAR", "'('", "write a list such as (error, pending)"),
    ("_COMMA", "',' or ')'", _QUOTES),
    ("_RPAR", "')'", "each '(' needs a ')'"),
    ("_AND", "'and' or 'or'", _QUOTES),
)
"""By the first of these tokens that could come next: what is expected, and a hint."""


def parse_filter(text: str, terms: FilterTerms | None = None) -> Filter:
    """Return the filter that a text describes; `KEY=VALUE` without blanks asks for metadata.

    Aliases are replaced by what they mean, times by UTC. Raises `ParseError` with the place that
    cannot be read.
    """
    return _Reader(text, terms or FilterTerms(), _Room()).read()


def shorthand_key(text: str) -> str | None:
    """Return the key of `KEY=VALUE` where this asks for metadata; None for any other filter."""
    found = _SHORTHAND.fullmatch(text)
    return None if found is None or found["key"].split(".")[0] in FIELDS else found["key"]


class _Room:
    """How much a filter may still hold, with all aliases replaced."""

    __slots__ = ("conditions", "levels")

    def __init__(self) -> None:
        self.levels = _DEEPEST
        self.conditions = _MOST


class _Reader(NamedTuple):
    """Reads one text: a filter, or an alias in it."""

    text: str
    terms: FilterTerms
    room: _Room
    names: tuple[str, ...] = ()
    """The aliases that led here, the innermost last."""
    origin: str = ""
    """The file that defines the innermost alias."""

    def read(self) -> Filter:
        if len(self.text) > _LONGEST:
            raise self._problem(f"it has more than {_LONGEST:,} characters", _LONGEST)
        return self._shorthand() or self._built(self._parsed())

    def _shorthand(self) -> Filter | None:
        """Return the filter for `KEY=VALUE`, unless KEY is a field; None for any other text."""
        found = _SHORTHAND.fullmatch(self.text)
        if found is None:
            return None
        name, *rest = found["key"].split(".")
        if name in FIELDS and not (name == METADATA and rest):
            return None
        path = tuple(rest) if name == METADATA else (name, *rest)
        if found["value"] == "null":
            # A script's empty answer must not select all threads without the key.
            hint = f"write {METADATA}.{'.'.join(path)} = null, or = 'null' for this text"
            raise self._problem("null is ambiguous in KEY=VALUE", found.start("value"), hint)
        operand = Operand(found["value"], quoted=not found["value"])
        return Condition(FilterField(METADATA, path), Operator.EQUAL, (operand,))

    def _parsed(self) -> Node:
        from lark.exceptions import UnexpectedInput

        text = self.text
        try:
            return grammar().parse(text)
        except UnexpectedInput as error:
            token = getattr(error, "token", None)
            at_end = token is not None and token.type == "$END"
            position = len(text) if at_end or error.pos_in_stream is None else error.pos_in_stream
            could_come = _next_tokens(error)
            if text[position : position + 1] in {"'", '"'} and "WORD" in could_come:
                raise self._problem("a quote is not closed", position, _QUOTES) from None
            raise self._unexpected(position, could_come) from None

    def _unexpected(self, position: int, could_come: Set[str]) -> ParseError:
        for token, expected, hint in _EXPECTED:
            if token in could_come:
                words = self.text[:position].split()
                is_after = words and words[-1] != "("
                after = f" after '{words[-1].lstrip('(')[-40:]}'" if is_after else ""
                meant = _meant(token, self.text[position : position + 1], words)
                return self._problem(f"expected {expected}{after}", position, meant or hint)
        return self._problem("expected the end", position, "a ')' has no '('")

    def _problem(self, problem: str, position: int, hint: str | None = None) -> ParseError:
        what = f"@{self.names[-1]} in '{self.origin}'" if self.names else "the filter"
        return ParseError(f"cannot read {what}: {problem}", self.text, position, hint=hint)

    def _built(self, tree: Node) -> Filter:
        """Return the filter of a tree of the grammar. Raises `ParseError`."""
        if not self.room.levels:
            hint = f"at most {_DEEPEST} levels of brackets, not and aliases"
            raise self._problem("it is nested too deep", _first(tree).start_pos or 0, hint)
        if tree.data == "condition":
            tokens = [one for one in tree.children if isinstance(one, str)]
            return self._condition(tokens)
        self.room.levels -= 1
        try:
            if tree.data == "alias":
                return self._alias(_first(tree))
            parts = tuple(self._built(one) for one in tree.children if not isinstance(one, str))
        finally:
            self.room.levels += 1
        if tree.data == "negation":
            return Not(parts[0])
        return And(parts) if tree.data == "both" else Or(parts)

    def _alias(self, token: Token) -> Filter:
        """Return the filter that an alias stands for."""
        name = token.removeprefix("@")
        place = token.start_pos or 0
        if name in self.names:
            way = " -> ".join(f"@{one}" for one in (*self.names[self.names.index(name) :], name))
            raise self._problem(f"aliases form a cycle: {way}", place)
        try:
            found = self.terms.alias(name)
        except UsageError as error:
            raise self._problem(error.message, place, error.hint) from None
        names = (*self.names, name)
        return _Reader(found.text, self.terms, self.room, names, found.origin).read()

    def _condition(self, tokens: Sequence[Token]) -> Filter:
        """Return a condition. Raises `ParseError` at the first token that makes no sense."""
        name, *negation, sign = [one for one in tokens if one.type not in {"WORD", "STRING"}]
        values = [one for one in tokens if one.type in {"WORD", "STRING"}]
        operands: list[Operand] = []
        place = name
        try:
            self._take_room()
            field = _field(name)
            place = sign
            operator = _operator(sign, field)
            for place in values:
                operands.append(self._operand(place, field))
                value_test(Condition(field, operator, tuple(operands[-1:])))
        except UsageError as error:
            raise self._problem(error.message, place.start_pos or 0, error.hint) from None
        found = Condition(field, operator, tuple(operands))
        return Not(found) if negation else found

    def _take_room(self) -> None:
        self.room.conditions -= 1
        if self.room.conditions < 0:
            raise UsageError(f"it has more than {_MOST:,} comparisons, with its aliases")

    def _operand(self, token: Token, field: FilterField) -> Operand:
        if token.type == "WORD":
            operand = Operand(str(token))
        else:
            operand = Operand(re.sub(r"\\([\\\"'])", r"\1", token[1:-1]), quoted=True)
        if FIELDS[field.name].kind is not FieldKind.TIME or operand == Operand("null"):
            return operand
        moment = parse_time(operand.text, self.terms.now, self.terms.zone)
        return Operand(moment.astimezone(UTC).isoformat())


def _meant(expected: str, found: str, before: Sequence[str]) -> str | None:
    """Return a hint for what people write who know other languages; None for anything else."""
    if expected == "FIELD" and found in {"'", '"'}:
        return "write the field first, such as status = error"
    if expected == "_AND" and found in {"&", "|"}:
        return "write and" if found == "&" else "write or"
    if expected == "_AND" and before and before[-1].isdigit() and found.isalpha():
        return "write a number and its unit without a blank, such as 2h or 10MiB"
    name, colon, value = before[-1].lstrip("(").partition(":") if before else ("", "", "")
    if expected == "OPERATOR" and colon and name in FIELDS:
        return f"write {name} = {value or 'VALUE'}"
    return None


def _next_tokens(error: object) -> Set[str]:
    """Return the names of the tokens that could come at the place of an error."""
    parser = getattr(error, "interactive_parser", None)
    return set() if parser is None else parser.accepts()


def _first(tree: Node) -> Token:
    """Return the first token of a tree."""
    first: Node | Token = tree
    while not isinstance(first, str):
        first = first.children[0]
    return first


def _field(written: str) -> FilterField:
    name = re.split(r"[.\[]", written, maxsplit=1)[0]
    path = written[len(name) :]
    spec = FIELDS.get(name)
    if spec is None:
        near = nearest_field(name)
        meant = "" if near is None else f"did you mean {near}? "
        raise UsageError(f"no field '{name}'", hint=f"{meant}fields: {field_names()}")
    if path and not spec.has_path:
        raise UsageError(f"{name} has no parts", hint=f"write {name} alone")
    steps = parse_path(path.removeprefix(".")) if path else ()
    is_whole = not steps or (name == ANY and (steps[0] != METADATA or len(steps) == 1))
    if spec.needs_path and is_whole:
        written, example = _with_path(name), _with_path(name, "user_id")
        raise UsageError(f"{name} needs a key", hint=f"write {written}, such as {example}")
    return FilterField(name, steps)


def _operator(written: str, field: FilterField) -> Operator:
    usable = FIELDS[field.name].operators
    try:
        operator = Operator(written.lower())
    except ValueError:
        meant = "write = for equal; " if written == "==" else ""
        raise UsageError(
            f"no operator '{written}'", hint=f"{meant}use {' '.join(usable)}"
        ) from None
    if operator not in usable:
        raise UsageError(f"{field.name} has no '{operator}'", hint=f"use {' '.join(usable)}")
    return operator


_LAST = re.compile(r"[^\s()=<>!~,'\"]*\Z")
_STATUS = re.compile(r"(?:^|[\s(])status\s*(?:!?=|(?:not\s+)?in\s*\([^)]*)\s*\Z")
_EXPECTS_FIELD = re.compile(r"(?:^|\(|\b(?:and|or|not)\s)\s*\Z", re.IGNORECASE)


def last_words(text: str, aliases: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the text with its last word completed, each with a description.

    Aliases and fields are offered where a condition begins, statuses after `status =`.
    """
    found = _LAST.search(text)
    before = text if found is None else text[: found.start()]
    if _STATUS.search(before):
        yield from ((before + one, "status") for one in Status)
    elif _EXPECTS_FIELD.search(before):
        yield from ((f"{before}@{name}", what) for name, what in aliases.items())
        for name, spec in FIELDS.items():
            yield f"{before}{_with_path(name, '')}", spec.summary


Facts = Callable[[FilterField], Sequence[Value] | None]
"""Returns the values of a field, none if it is missing; None if it was not read yet.

Durations are in seconds, times in seconds since 1970.
"""
Decision = Callable[[Facts], bool | None]
"""Returns whether a thread matches; None if that depends on what was not read yet."""


def decision(expression: Filter) -> Decision:
    """Return the function that decides about threads.

    Raises `UsageError` if a condition makes no sense; the function raises it for a pattern that
    takes too long.
    """
    match expression:
        case Condition():
            return _condition(expression)
        case Not(part):
            inner = decision(part)
            return lambda facts: None if (answer := inner(facts)) is None else not answer
        case And(parts):
            return _until(False, [decision(part) for part in parts])
        case Or(parts):
            return _until(True, [decision(part) for part in parts])


def _condition(condition: Condition) -> Decision:
    test, field = value_test(condition), condition.field
    is_opposite = condition.operator is Operator.UNEQUAL

    def decide(facts: Facts) -> bool | None:
        values = facts(field)
        if values is None:
            return None
        return any(map(test, values or (None,))) is not is_opposite

    return decide


def _until(decisive: bool, parts: Sequence[Decision]) -> Decision:
    """Return the decision by the first part that gives the decisive answer."""

    def decide(facts: Facts) -> bool | None:
        found: bool | None = not decisive
        for part in parts:
            answer = part(facts)
            if answer is decisive:
                return decisive
            if answer is None:
                found = None
        return found

    return decide


def values_at(root: Mapping[str, Value], path: Path) -> tuple[Value, ...]:
    """Return the values at a path, several for a path with `[]`; none if it does not exist.

    A key that itself contains the dots of the path is found first. What lies below a value that
    could not be read is that value, so that it is not taken for null.
    """
    names = [step for step in path if isinstance(step, str)]
    whole = ".".join(names)
    if len(names) == len(path) and whole in root:
        return (root[whole],)
    return _selected(dict(root.items()), path)


def values_in(root: Value, path: Path) -> tuple[Value, ...]:
    """Return the values at a path in any value; the value itself for an empty path."""
    return _selected(root, path) if path else (root,)


def _selected(root: Value, path: Path) -> tuple[Value, ...]:
    try:
        return tuple(one.value for one in select(root, path))
    except NotFound:
        above = _selected(root, path[:-1])
        return tuple(one for one in above if isinstance(one, Opaque | Cut))


# Find the bounds of the threads that can match a filter, so that a store lists no others.
#
# The bounds may admit threads that do not match, but each thread that matches is within them.


NO_THREAD = ThreadBounds(ids=frozenset())
_CHANNELS = {Status.ERROR: ERROR, Status.INTERRUPTED: INTERRUPT}
"""By condition of a thread, the channel of the writes at its head that cause it."""
_CAUSES = {"error": ERROR, "question": INTERRUPT}
"""By field, the channel of the writes at the head without which it is null."""
_ROUNDING = timedelta(seconds=1)
"""More than a length of time may differ from its seconds as a float."""
_BEFORE = {Operator.LESS, Operator.AT_MOST}
_AFTER = {Operator.GREATER, Operator.AT_LEAST}
_OPPOSITES = {
    Operator.LESS: Operator.GREATER,
    Operator.AT_MOST: Operator.AT_LEAST,
    Operator.GREATER: Operator.LESS,
    Operator.AT_LEAST: Operator.AT_MOST,
}
"""Orders of moments by the orders of the time since then."""


def bounds_of(expression: Filter, now: datetime) -> ThreadBounds:
    """Return bounds of all threads that match a filter, with ages as of `now`."""
    return _bounds(expression, now, holds=True)


def both(one: ThreadBounds, other: ThreadBounds) -> ThreadBounds:
    """Return bounds of the threads that are within both."""
    shorter, longer = sorted((one.prefix, other.prefix), key=len)
    if not longer.startswith(shorter):
        return NO_THREAD
    channels = [one.head_channels, other.head_channels]
    return ThreadBounds(
        ids=_common(one.ids, other.ids),
        prefix=longer,
        since=max(filter(None, (one.since, other.since)), default=None),
        until=min(filter(None, (one.until, other.until)), default=None),
        users=_common(one.users, other.users),
        # A thread must have a write on a channel of each set; the store takes only one set.
        head_channels=min((each for each in channels if each is not None), key=len, default=None),
    )


def either(one: ThreadBounds, other: ThreadBounds) -> ThreadBounds:
    """Return bounds of the threads that are within at least one of two bounds."""
    if NO_THREAD.ids in (one.ids, other.ids):
        return other if one.ids == NO_THREAD.ids else one
    since, until = (one.since, other.since), (one.until, other.until)
    return ThreadBounds(
        ids=_united(one.ids, other.ids),
        prefix=commonprefix([_prefix(one), _prefix(other)]),  # noqa: RUF071  (no paths)
        since=None if None in since else min(filter(None, since)),
        until=None if None in until else max(filter(None, until)),
        users=_united(one.users, other.users),
        head_channels=_united(one.head_channels, other.head_channels),
    )


def _prefix(bounds: ThreadBounds) -> str:
    return bounds.prefix or commonprefix(sorted(bounds.ids or ()))  # noqa: RUF071


def _common(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _united(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return None if one is None or other is None else one | other


def _bounds(expression: Filter, now: datetime, *, holds: bool) -> ThreadBounds:
    """Return bounds of the threads for which an expression holds, or does not hold."""
    match expression:
        case Not(part):
            return _bounds(part, now, holds=not holds)
        case And(parts) | Or(parts):
            join = both if isinstance(expression, And) is holds else either
            return reduce(join, (_bounds(part, now, holds=holds) for part in parts))
        case Condition():
            try:
                return _of_condition(expression, now, holds=holds)
            except OverflowError:  # a time before the year 1, or after 9999
                return ALL_THREADS


def _of_condition(condition: Condition, now: datetime, *, holds: bool) -> ThreadBounds:
    operator, may_be_null = condition.operator, _may_be_null(condition)
    if operator is Operator.UNEQUAL:
        operator, holds = Operator.EQUAL, not holds
    name, is_equal = condition.field.name, operator in {Operator.EQUAL, Operator.IN}
    if name in _CAUSES and may_be_null is not holds:  # then it is not null
        found = ThreadBounds(head_channels=frozenset({_CAUSES[name]}))
        return found if holds or is_equal else ALL_THREADS
    if not holds:  # It may also be null, which no bound admits.
        return ALL_THREADS
    match name:
        case "thread" if is_equal:
            return ThreadBounds(ids=frozenset(_texts(condition)))
        case "thread" if operator is Operator.LIKE:
            return _bounds_of_like(condition.operands[0].text)
        case "user" if is_equal and not may_be_null:
            return ThreadBounds(users=frozenset(_texts(condition)))
        case "status" if is_equal:
            return _with_status(_texts(condition))
        case "idle" if not may_be_null:
            return _between([now - one for one in _lengths(condition)], _OPPOSITES.get(operator))
        case "last_at" if not may_be_null:
            return _between([EPOCH + one for one in _lengths(condition)], operator)
    return ALL_THREADS


def _texts(condition: Condition) -> list[str]:
    """Return the texts that the operands of `=` or `in` mean; null has none."""
    kind = FIELDS[condition.field.name].kind
    found = (read_operand(one, kind).text for one in condition.operands)
    return [text for text in found if text is not None]


def _may_be_null(condition: Condition) -> bool:
    kind = FIELDS[condition.field.name].kind
    return any(read_operand(one, kind).null for one in condition.operands)


def _bounds_of_like(pattern: str) -> ThreadBounds:
    begin = ""
    for part in re.findall(r"\\[%_\\]|.", pattern, re.DOTALL):
        if part in {"%", "_"}:
            return ThreadBounds(prefix=begin)
        begin += part[-1]
    return ThreadBounds(ids=frozenset({begin}))


def _with_status(wanted: Sequence[str]) -> ThreadBounds:
    channels = [_CHANNELS.get(Status(one)) for one in wanted]
    if not channels:
        return NO_THREAD
    if None in channels:
        return ALL_THREADS
    return ThreadBounds(head_channels=frozenset(filter(None, channels)))


def _lengths(condition: Condition) -> list[timedelta]:
    """Return the numbers that the operands mean, as seconds."""
    kind = FIELDS[condition.field.name].kind
    found = (read_operand(one, kind).number for one in condition.operands)
    return [timedelta(seconds=number) for number in found if number is not None]


def _between(moments: Sequence[datetime], operator: Operator | None) -> ThreadBounds:
    """Return bounds for the time of the newest checkpoint, compared with some moments."""
    first, last = min(moments) - _ROUNDING, max(moments) + _ROUNDING
    return ThreadBounds(
        since=None if operator in _BEFORE else first, until=None if operator in _AFTER else last
    )
