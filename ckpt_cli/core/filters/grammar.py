"""The grammar of the filter language."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ckpt_cli.core.filters.expressions import KEY_PART, WORD, WORD_END
from ckpt_cli.core.filters.terms import ALIAS_NAME

if TYPE_CHECKING:
    from lark import Lark, Token

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


# Each token is atomic: the parser does not try a shorter one, either.
_SINGLE = re.compile(
    rf"\s*(?!{_NOT})(?P<FIELD>(?>{_FIELD}))\s*(?:(?P<OPERATOR>(?>{_OPERATOR}))|(?P<LIKE>{_LIKE}))"
    rf"\s*(?:(?P<STRING>(?>{_STRING}))|(?P<WORD>(?>{WORD})))\s*",
    re.DOTALL,
)


class FilterToken(NamedTuple):
    """A part of a condition."""

    type: str
    """FIELD, NOT, OPERATOR, LIKE, IN, WORD or STRING."""
    text: str
    position: int


def parsed_token(token: Token) -> FilterToken:
    """Return a token of the parser."""
    return FilterToken(token.type, str(token), token.start_pos or 0)


def single_condition(text: str) -> list[FilterToken] | None:
    """Return the tokens of a text that is one condition without `in` and `not`, as the parser
    does; None for any other text.
    """
    found = _SINGLE.fullmatch(text)
    if found is None:
        return None
    kinds = ("FIELD", "OPERATOR", "LIKE", "WORD", "STRING")
    return [FilterToken(one, found[one], found.start(one)) for one in kinds if found[one]]


@cache
def grammar() -> Lark:
    """Return the parser; its trees have the rules `either`, `both`, `negation`, `alias` and
    `condition`."""
    # Takes 40 ms, so it is imported only if there is a filter.
    from lark import Lark

    return Lark(_GRAMMAR, parser="lalr", maybe_placeholders=False)
