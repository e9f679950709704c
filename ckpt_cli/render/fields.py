"""What answers are made of: each key is declared once, for JSON, TSV, tables, SQL and the docs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from ckpt_backends.codec import to_json
from ckpt_backends.codec.values import Value
from ckpt_cli.render.table import Column, Record, iso
from ckpt_cli.render.text import StyledLine

Schema: TypeAlias = dict[str, Any]


class Type(NamedTuple):
    """A type of JSON: its schema, and how a value of the model becomes one."""

    schema: Schema
    sql: str
    """DuckDB's name of the type."""
    convert: Callable[[Any], Any] | None = None
    """None: it is one already."""
    unit: str = ""


def _kind(name: str, sql: str) -> Type:
    return Type({"type": name}, sql)


TEXT = _kind("string", "VARCHAR")
INTEGER = _kind("integer", "BIGINT")
NUMBER = _kind("number", "DOUBLE")
BYTES = INTEGER._replace(unit="bytes")
SECONDS = NUMBER._replace(convert=lambda seconds: round(seconds, 6), unit="seconds")
"""Stores keep microseconds."""
FLAG = _kind("boolean", "BOOLEAN")
TIME = Type({"type": "string", "format": "date-time"}, "TIMESTAMPTZ", iso)
"""A `datetime`, or a text that is one already."""
VALUE = Type({}, "JSON", to_json)
"""A value of a store, in the codec's JSON form."""
ANY = Type({}, "JSON")
"""JSON of any form."""


def values_record(values: Mapping[str, Value]) -> dict[str, Any]:
    """Return the values of channels in JSON form."""
    return {
        # Most are versions, which are such texts.
        name: value if type(value) is str and value.isascii() else to_json(value)
        for name, value in values.items()
    }


VALUES = Type({"type": "object"}, "JSON", values_record)
"""Values of a store by name, such as those of channels."""


def one_of(*texts: str) -> Type:
    """Return the type of one of some texts; an enum's member becomes its text."""
    return Type({"enum": list(texts)}, "VARCHAR", str)


def maybe(kind: Type | Shape) -> Type:
    """Return the type of a value that may be null."""
    kind = _type(kind)
    convert, schema = kind.convert, kind.schema
    if "enum" in schema:
        schema = {"enum": [*schema["enum"], None]}
    elif isinstance(schema.get("type"), str):
        schema = {**schema, "type": [schema["type"], "null"]}
    elif schema:
        schema = {"anyOf": [schema, {"type": "null"}]}
    if convert is None:
        return kind._replace(schema=schema)
    return kind._replace(
        schema=schema, convert=lambda value: None if value is None else convert(value)
    )


def each(kind: Type | Shape) -> Type:
    """Return the type of a list."""
    kind = _type(kind)
    convert = kind.convert
    schema = {"type": "array", "items": kind.schema}
    sql = "JSON" if kind.sql == "JSON" else f"{kind.sql}[]"
    if convert is None:
        return Type(schema, sql, list)
    return Type(schema, sql, lambda values: [convert(one) for one in values])


def by_name(kind: Type | Shape) -> Type:
    """Return the type of an object with names that are not fixed, such as channels."""
    kind = _type(kind)
    convert = kind.convert
    schema = {"type": "object", "additionalProperties": kind.schema}
    if convert is None:
        return Type(schema, "JSON", dict)
    return Type(schema, "JSON", lambda values: {name: convert(one) for name, one in values.items()})


def either(*shapes: Shape) -> Type:
    """Return the type of records of several shapes; what makes them chooses among these."""
    return Type({"anyOf": [one.schema for one in shapes]}, "JSON")


class Field(NamedTuple):
    """One key of an answer."""

    key: str
    type: Type | Shape
    text: str
    """What it tells: one sentence of the documentation, or two."""
    of: str | Callable[[Any], Any] = ""
    """Takes it from what was found: an attribute, such as `key.thread_id`, or a function. By
    default it is the attribute of the key's name.
    """
    optional: bool = False
    """Whether the key is absent if there is nothing to tell: for None, False and what is empty."""
    empty: bool = False
    """Whether an optional key is only absent for None."""


class Part(NamedTuple):
    """The keys of another shape, in one place among those of an answer.

    A key that comes again keeps its place, and has the later value.
    """

    shape: Shape
    of: str | Callable[[Any], Any]
    """Takes what they are about from what was found; None leaves all of them out."""
    optional: bool = True
    """Whether that may be None."""


def under(name: str, *fields: Field) -> list[Field]:
    """Return keys that are taken from an attribute of what was found."""
    return [one._replace(of=f"{name}.{one.of or one.key}") for one in fields]


def optional(key: str, kind: Type | Shape, text: str, of: str | Callable[[Any], Any] = "") -> Field:
    """Return a key that is absent for None, for False and for what is empty."""
    return Field(key, kind, text, of, optional=True)


def known(key: str, kind: Type | Shape, text: str, of: str | Callable[[Any], Any] = "") -> Field:
    """Return a key that is absent for None only."""
    return Field(key, kind, text, of, optional=True, empty=True)


_Take: TypeAlias = Callable[[Any], Any]


class Shape:
    """The keys of one kind of answer, in order."""

    def __init__(self, text: str, *parts: Field | Part) -> None:
        self.text = text
        self.fields: dict[str, Field] = {}
        """Key to field."""
        self._steps: list[tuple[str, _Take, _Take | None, bool, bool]] = []
        """Key, how to take and convert its value, whether None leaves it out, and what is empty."""
        for one in parts:
            if isinstance(one, Part):
                self._steps.append(("", _taking(one.of), one.shape.record, True, False))
                for field in one.shape.fields.values():
                    held = field._replace(optional=True) if one.optional else field
                    self.fields.setdefault(field.key, held)
            else:
                take, convert = _taking(one.of or one.key), _type(one.type).convert
                empty = one.optional and not one.empty
                self._steps.append((one.key, take, convert, one.optional, empty))
                self.fields[one.key] = one

    def record(self, found: Any) -> dict[str, Any]:
        """Return what was found, as JSON has it."""
        record: dict[str, Any] = {}
        for key, take, convert, skips_none, skips_empty in self._steps:
            value = take(found)
            if skips_none and (value is None or (skips_empty and _is_empty(value))):
                continue
            if key:
                record[key] = value if convert is None else convert(value)
            elif convert is not None:
                record |= convert(value)
        return record

    def columns(self, *columns: str | Column) -> list[Column]:
        """Return columns for these keys, or for all, in this order; only TSV has a bare key.

        Raises `KeyError` if there is no such key.
        """
        found = [
            Column(one.upper(), one, table=False) if isinstance(one, str) else one
            for one in columns or self.fields
        ]
        return [one for one in found if one.combine is not None or self.fields[one.key]]

    @property
    def schema(self) -> Schema:
        """The JSON Schema of a record. Keys may be added in later versions."""
        properties = {
            one.key: {**_type(one.type).schema, "description": _described(one)}
            for one in self.fields.values()
        }
        required = [one.key for one in self.fields.values() if not one.optional]
        return {
            "type": "object",
            "description": self.text,
            "properties": properties,
            "required": required,
        }


def inside(name: str, shape: Shape) -> list[Field]:
    """Return the keys of a shape, taken from an attribute of what was found."""
    whole = attrgetter(name)

    def moved(field: Field) -> Field:
        take = _taking(field.of or field.key)
        return field._replace(of=lambda found: take(whole(found)))

    return list(map(moved, shape.fields.values()))


class Joined(Shape):
    """The keys of several shapes in one object."""

    def __init__(self, text: str, *parts: tuple[Callable[[Any], Any] | None, Shape]) -> None:
        """Each shape is taken from what its function returns, and left out for None; a shape
        without a function is always there.
        """
        super().__init__(text)
        self._shapes = parts
        for take, shape in parts:
            for key, one in shape.fields.items():
                there = self.fields.get(key, one)
                is_always = take is None or not (there is one or there.optional)
                self.fields[key] = one if is_always else one._replace(optional=True)

    def record(self, found: Any) -> dict[str, Any]:
        """Return what was found, as JSON has it."""
        record: dict[str, Any] = {}
        for take, shape in self._shapes:
            part = found if take is None else take(found)
            if part is not None:
                record |= shape.record(part)
        return record


class View(NamedTuple):
    """How one kind of answer is printed."""

    record: Callable[[Any], Any]
    """Returns it as JSON has it, such as `Shape.record`."""
    lines: Callable[..., Iterable[StyledLine]] = lambda *_: ()
    """Returns it as text, from what was found, a `Ui`, and the options of the command; part of a
    list has none.
    """
    rows: Callable[[Any], Iterable[Record]] = lambda _: ()
    """Returns its parts, for TSV."""
    columns: Sequence[Column] = ()


def _type(kind: Type | Shape) -> Type:
    return kind if isinstance(kind, Type) else Type(kind.schema, "JSON", kind.record)


def _described(field: Field) -> str:
    unit = _type(field.type).unit
    return f"{field.text} In {unit}." if unit else field.text


def _taking(of: str | Callable[[Any], Any]) -> Callable[[Any], Any]:
    return of if callable(of) else attrgetter(of)


def _is_empty(value: Any) -> bool:
    return not value and type(value) not in {int, float}


KEY_IN_THREAD = (
    Field("checkpoint_ns", TEXT, "Namespace; '' is the root graph."),
    Field("checkpoint_id", TEXT, "Checkpoint."),
)
"""Names a checkpoint of a known thread."""
KEY = (
    Field("thread_id", TEXT, "Thread.", "key.thread_id"),
    *(one._replace(of=f"key.{one.key}") for one in KEY_IN_THREAD),
)
"""Names a checkpoint."""
