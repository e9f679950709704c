"""Parse a filter such as `status = error and idle > 2h`."""

from __future__ import annotations

import re
from collections.abc import Set
from typing import TYPE_CHECKING

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
from ckpt_cli.core.filters.fields import FIELDS, METADATA, Operator, field_names
from ckpt_cli.core.filters.grammar import grammar
from ckpt_cli.core.values.paths import parse_path

if TYPE_CHECKING:
    from lark import Token, Tree

    Node = Tree[Token]

_LONGEST = 4000
"""Characters of a filter."""
_DEEPEST = 50
"""Levels of brackets and `not`."""
_SHORTHAND = re.compile(rf"(?P<key>{KEY_PART}(?:\.{KEY_PART})*)=(?P<value>(?:{WORD})?)")
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


def parse_filter(text: str) -> Filter:
    """Return the filter that a text describes; `KEY=VALUE` without blanks asks for metadata.

    Raises `ParseError` with the place that cannot be read.
    """
    if len(text) > _LONGEST:
        raise _problem(f"it has more than {_LONGEST:,} characters", text, _LONGEST)
    return _shorthand(text) or _built(_parsed(text), text, _DEEPEST)


def _shorthand(text: str) -> Filter | None:
    """Return the filter for `KEY=VALUE`, unless KEY is a field; None for any other text."""
    found = _SHORTHAND.fullmatch(text)
    if found is None:
        return None
    name, *rest = found["key"].split(".")
    if name in FIELDS and not (name == METADATA and rest):
        return None
    path = tuple(rest) if name == METADATA else (name, *rest)
    operand = Operand(found["value"], quoted=not found["value"])
    return Condition(Field(METADATA, path), Operator.EQUAL, (operand,))


def _parsed(text: str) -> Node:
    from lark.exceptions import UnexpectedInput

    try:
        return grammar().parse(text)
    except UnexpectedInput as error:
        token = getattr(error, "token", None)
        at_end = token is not None and token.type == "$END"
        position = len(text) if at_end or error.pos_in_stream is None else error.pos_in_stream
        if text[position : position + 1] in {"'", '"'} and "WORD" in _next_tokens(error):
            raise _problem("a quote is not closed", text, position, _QUOTES) from None
        raise _unexpected(text, position, _next_tokens(error)) from None


def _next_tokens(error: object) -> Set[str]:
    """Return the names of the tokens that could come at the place of an error."""
    parser = getattr(error, "interactive_parser", None)
    return set() if parser is None else parser.accepts()


def _unexpected(text: str, position: int, could_come: Set[str]) -> ParseError:
    for token, expected, hint in _EXPECTED:
        if token in could_come:
            words = text[:position].split()
            after = f" after '{words[-1].lstrip('(')[-40:]}'" if words and words[-1] != "(" else ""
            return _problem(f"expected {expected}{after}", text, position, hint)
    return _problem("expected the end", text, position, "a ')' has no '('")


def _problem(problem: str, text: str, position: int, hint: str | None = None) -> ParseError:
    return ParseError(f"cannot read the filter: {problem}", text, position, hint=hint)


def _built(tree: Node, text: str, levels: int) -> Filter:
    """Return the filter of a tree of the grammar. Raises `ParseError` if it has more levels."""
    if not levels:
        hint = f"at most {_DEEPEST} levels of brackets and not"
        raise _problem("it is nested too deep", text, _start(tree), hint)
    if tree.data == "condition":
        return _condition([one for one in tree.children if isinstance(one, str)], text)
    inner = (one for one in tree.children if not isinstance(one, str))
    parts = tuple(_built(one, text, levels - 1) for one in inner)
    if tree.data == "negation":
        return Not(parts[0])
    return And(parts) if tree.data == "both" else Or(parts)


def _start(tree: Node) -> int:
    first: Node | Token = tree
    while not isinstance(first, str):
        first = first.children[0]
    return first.start_pos or 0


def _condition(tokens: list[Token], text: str) -> Filter:
    """Return a condition. Raises `ParseError` at the first token that makes no sense."""
    name, *negation, sign = [one for one in tokens if one.type not in {"WORD", "STRING"}]
    values = [one for one in tokens if one.type in {"WORD", "STRING"}]
    try:
        place = name
        field = _field(name)
        place = sign
        operator = _operator(sign, field)
        for place in values:
            value_test(Condition(field, operator, (_operand(place),)))
    except UsageError as error:
        raise _problem(error.message, text, place.start_pos or 0, error.hint) from None
    found = Condition(field, operator, tuple(map(_operand, values)))
    return Not(found) if negation else found


def _field(token: Token) -> Field:
    name = re.split(r"[.\[]", token, maxsplit=1)[0]
    path = token[len(name) :]
    spec = FIELDS.get(name)
    if spec is None:
        raise UsageError(f"no field '{name}'", hint=f"use {field_names()}")
    if path and not spec.has_path:
        raise UsageError(f"{name} has no parts", hint=f"write {name} alone")
    if spec.has_path and not path:
        raise UsageError(f"{name} needs a key", hint=f"write {name}.KEY, such as {name}.user_id")
    return Field(name, parse_path(path.removeprefix(".")) if path else ())


def _operator(token: Token, field: Field) -> Operator:
    usable = FIELDS[field.name].operators
    try:
        operator = Operator(token.lower())
    except ValueError:
        raise UsageError(f"no operator '{token}'", hint=f"use {' '.join(usable)}") from None
    if operator not in usable:
        raise UsageError(f"{field.name} has no '{operator}'", hint=f"use {' '.join(usable)}")
    return operator


def _operand(token: Token) -> Operand:
    if token.type == "WORD":
        return Operand(str(token))
    return Operand(re.sub(r"\\([\\\"'])", r"\1", token[1:-1]), quoted=True)
