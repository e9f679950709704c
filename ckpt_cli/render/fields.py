"""How answers are declared: each key once, for JSON, TSV, tables, SQL and the docs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from ckpt_cli.render.table import Column, Record
from ckpt_cli.render.text import StyledLine

Schema: TypeAlias = dict[str, Any]
Convert: TypeAlias = Callable[[Any], Any]


class Type:
    """A type of JSON: its schema, and how a value of the model becomes one."""

    def __init__(
        self, schema: Schema, sql: str = "JSON", convert: Convert | None = None, unit: str = ""
    ) -> None:
        """`sql` is DuckDB's name of it. Without `convert`, each value is one already; None, which
        is null in JSON, is never converted.
        """
        self.schema, self.sql, self.convert, self.unit = schema, sql, convert, unit

    def converted_by(self, convert: Convert | None) -> Type:
        """Return the same type, made in another way."""
        return Type(self.schema, self.sql, convert, self.unit)

    @property
    def or_null(self) -> Type:
        """The type of a value that may be null."""
        schema = self.schema
        if "enum" in schema:
            schema = {"enum": [*schema["enum"], None]}
        elif isinstance(schema.get("type"), str):
            schema = {**schema, "type": [schema["type"], "null"]}
        elif schema:
            schema = {"anyOf": [schema, {"type": "null"}]}
        return Type(schema, self.sql, self.convert, self.unit)

    @property
    def list(self) -> Type:
        """The type of a list."""
        convert = self.convert
        sql = "JSON" if self.sql == "JSON" else f"{self.sql}[]"
        kind = Type({"type": "array", "items": self.schema}, sql, list)
        if convert is None:
            return kind
        return kind.converted_by(lambda values: [convert(one) for one in values])

    @property
    def by_name(self) -> Type:
        """The type of an object with names that are not fixed, such as channels."""
        convert = self.convert
        kind = Type({"type": "object", "additionalProperties": self.schema}, convert=dict)
        if convert is None:
            return kind
        return kind.converted_by(
            lambda values: {name: convert(one) for name, one in values.items()}
        )


class Field(NamedTuple):
    """One key of an answer."""

    key: str
    type: Type
    text: str
    """What it tells: one sentence of the documentation, or two."""
    of: str | Convert = ""
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
    of: str | Convert
    """Takes what they are about from what was found; None leaves all of them out."""


def inside(name: str, *fields: Field) -> list[Field]:
    """Return keys that are taken from an attribute of what was found."""
    whole = attrgetter(name)

    def moved(of: str | Convert) -> str | Convert:
        return (lambda found: of(whole(found))) if callable(of) else f"{name}.{of}"

    return [one._replace(of=moved(one.of or one.key)) for one in fields]


def optional(key: str, kind: Type, text: str, of: str | Convert = "") -> Field:
    """Return a key that is absent for None, for False and for what is empty."""
    return Field(key, kind, text, of, optional=True)


def known(key: str, kind: Type, text: str, of: str | Convert = "") -> Field:
    """Return a key that is absent for None only."""
    return Field(key, kind, text, of, optional=True, empty=True)


class Shape(Type):
    """The keys of one kind of answer, in order."""

    def __init__(self, text: str, *parts: Field | Part) -> None:
        self.text = text
        self.fields: dict[str, Field] = {}
        """Key to field."""
        self._steps: list[tuple[str, Convert, Convert | None, bool, bool]] = []
        """Key, how to take and convert its value, whether None leaves it out, and what is empty."""
        for one in parts:
            if isinstance(one, Part):
                self._steps.append(("", _taking(one.of), one.shape.record, True, False))
                for field in one.shape:
                    self.fields.setdefault(field.key, field._replace(optional=True))
            else:
                take, convert = _taking(one.of or one.key), one.type.convert
                empty = one.optional and not one.empty
                self._steps.append((one.key, take, convert, one.optional, empty))
                self.fields[one.key] = one
        properties = {one.key: {**one.type.schema, "description": _described(one)} for one in self}
        required = [one.key for one in self if not one.optional]
        # Keys may be added in later versions.
        schema = {
            "type": "object",
            "description": text,
            "properties": properties,
            "required": required,
        }
        super().__init__(schema, convert=self.record)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields.values())

    def record(self, found: Any) -> dict[str, Any]:
        """Return what was found, as JSON has it."""
        record: dict[str, Any] = {}
        for key, take, convert, skips_none, skips_empty in self._steps:
            value = take(found)
            if skips_none and (value is None or (skips_empty and _is_empty(value))):
                continue
            if key:
                record[key] = value if value is None or convert is None else convert(value)
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


def _described(field: Field) -> str:
    unit = field.type.unit
    return f"{field.text} In {unit}." if unit else field.text


def _taking(of: str | Convert) -> Convert:
    return of if callable(of) else attrgetter(of)


def _is_empty(value: Any) -> bool:
    return not value and type(value) not in {int, float}
