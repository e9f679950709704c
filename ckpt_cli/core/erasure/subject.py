"""Who is erased: a filter, or one word that a profile says where to find."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from ckpt_backends.errors import ParseError, UsageError
from ckpt_backends.memory.protocol import Namespace
from ckpt_cli.core.erasure.scope import SHORTEST_WORD
from ckpt_cli.core.filters.expressions import (
    Condition,
    Field,
    Filter,
    Operand,
    parts_of,
)
from ckpt_cli.core.filters.fields import Operator
from ckpt_cli.core.memory.item_filter import parse_namespace

_PLACE = "{subject}"
_OPERATORS = re.compile(r"[=<>~()]")
_PEOPLE = frozenset({"user", "user_id", "userId", "username"})
_NAMING = frozenset({"user", "thread", "metadata", "values"})


@dataclass(frozen=True, slots=True)
class ErasureSubject:
    """The person that is erased."""

    text: str
    """As given."""
    filter: Filter
    """The threads of the person."""
    word: str | None
    """What the application calls the person; None if the filter does not tell."""


def parse_subject(text: str, field: str | None) -> ErasureSubject:
    """Return what `--subject` means: a filter, or a word that `field` of a thread equals.

    Raises `ParseError`, and `UsageError` for a word without a field.
    """
    from ckpt_cli.core.filters.parse import parse_filter

    try:
        found = parse_filter(text)
    except ParseError:
        if _OPERATORS.search(text):
            raise
        if field is None:
            raise UsageError(
                f"cannot tell where threads name '{text}'",
                hint="give a filter such as 'metadata.user = \"anna\"', or set subject in"
                " [stores.NAME.erase] of the configuration",
            ) from None
        return ErasureSubject(text, _condition(field, text), text)
    return ErasureSubject(text, found, _word_of(found, field))


def check_field(field: str) -> None:
    """Raise `UsageError` if a word cannot be compared with this field."""
    _condition(field, "x")


def memory_namespace(pattern: str, word: str) -> Namespace:
    """Return the namespace of a person: `users/{subject}` with the word in place."""
    return tuple(label.replace(_PLACE, word) for label in parse_namespace(pattern))


def check_memory_pattern(pattern: str) -> None:
    """Raise `UsageError` for a pattern that would mean the memory of everyone."""
    if not any(_PLACE in label for label in parse_namespace(pattern)):
        raise UsageError(f"no {_PLACE} in it", hint='write memory = "users/{subject}"')


def words_of(expression: Filter, field: str | None) -> set[str]:
    """Return the texts by which a filter names the person.

    If it asks for a field that holds the user, these are the texts of this field only.
    """
    conditions = [
        one
        for one in _conditions(expression)
        if one.operator in {Operator.EQUAL, Operator.IN} and one.field.name in _NAMING
    ]
    own = None if field is None else _condition(field, "x").field
    of_people = [one for one in conditions if one.field == own or _names_person(one.field)]
    return {operand.text for one in of_people or conditions for operand in one.operands}


def _conditions(expression: Filter) -> Iterator[Condition]:
    if isinstance(expression, Condition):
        yield expression
    for part in parts_of(expression):
        yield from _conditions(part)


def mention_pattern(words: Iterable[str], thread_ids: Collection[str], most: int) -> str | None:
    """Return a regular expression that finds words and ids as whole words; None if there are none.

    Short words would be found everywhere, so they are left out; of the ids, at most `most`.
    """
    usable = [one for one in sorted({*words}) if len(one) >= SHORTEST_WORD]
    ids = [one for one in sorted(thread_ids)[:most] if len(one) >= SHORTEST_WORD]
    found = "|".join(re.escape(one) for one in dict.fromkeys((*usable, *ids)))
    return rf"(?<!\w)(?:{found})(?!\w)" if found else None


def _condition(field: str, word: str) -> Condition:
    from ckpt_cli.core.filters.parse import parse_filter

    try:
        found = parse_filter(f"{field} = 'x'")
    except ParseError as error:
        raise UsageError(f"'{field}' is not a field of a thread: {error.message}") from None
    if not isinstance(found, Condition):
        raise UsageError(f"'{field}' is not a field of a thread")
    return Condition(found.field, Operator.EQUAL, (Operand(word, quoted=word == "null"),))


def _names_person(field: Field) -> bool:
    """Return whether a field, by its name, holds the user of a thread."""
    last = field.path[-1] if field.path else field.name
    # A key may have dots of its own, such as "app.user_id".
    return field.name in {"user", "metadata"} and str(last).rpartition(".")[2] in _PEOPLE


def _word_of(expression: Filter, field: str | None) -> str | None:
    """Return the word of a filter that only compares the field of the profile with it."""
    if not isinstance(expression, Condition) or expression.operator is not Operator.EQUAL:
        return None
    if field is not None and expression.field != _condition(field, "x").field:
        return None
    if field is None and not _names_person(expression.field):
        return None
    return expression.operands[0].text
