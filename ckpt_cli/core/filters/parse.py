"""Parse a filter such as `status = error and idle > 2h`."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from datetime import UTC
from typing import TYPE_CHECKING, NamedTuple

from ckpt_backends.errors import ParseError, UsageError
from ckpt_cli.core.filters.comparison import value_test
from ckpt_cli.core.filters.expressions import (
    KEY_PART,
    WORD,
    And,
    Condition,
    Field,
    Filter,
    Not,
    Operand,
    Or,
)
from ckpt_cli.core.filters.fields import (
    FIELDS,
    METADATA,
    FieldKind,
    Operator,
    field_names,
    nearest_field,
)
from ckpt_cli.core.filters.grammar import grammar
from ckpt_cli.core.filters.terms import FilterTerms
from ckpt_cli.core.times import parse_time
from ckpt_cli.core.values.paths import parse_path

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
        return Condition(Field(METADATA, path), Operator.EQUAL, (operand,))

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

    def _operand(self, token: Token, field: Field) -> Operand:
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


def _field(written: str) -> Field:
    name = re.split(r"[.\[]", written, maxsplit=1)[0]
    path = written[len(name) :]
    spec = FIELDS.get(name)
    if spec is None:
        near = nearest_field(name)
        meant = "" if near is None else f"did you mean {near}? "
        raise UsageError(f"no field '{name}'", hint=f"{meant}fields: {field_names()}")
    if path and not spec.has_path:
        raise UsageError(f"{name} has no parts", hint=f"write {name} alone")
    if spec.needs_path and not path:
        raise UsageError(f"{name} needs a key", hint=f"write {name}.KEY, such as {name}.user_id")
    return Field(name, parse_path(path.removeprefix(".")) if path else ())


def _operator(written: str, field: Field) -> Operator:
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
