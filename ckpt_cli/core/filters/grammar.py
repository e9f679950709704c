"""The grammar of the filter language."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ckpt_cli.core.filters.expressions import KEY_PART, WORD, WORD_END
from ckpt_cli.core.filters.terms import ALIAS_NAME

if TYPE_CHECKING:
    from lark import Lark

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
