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
    Not,
    Operand,
    parts_of,
)
from ckpt_cli.core.filters.fields import Operator
from ckpt_cli.core.memory.item_filter import parse_namespace

_PLACES = ("{subject}", "{user}")
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
    """Return the namespace of a person: `users/{subject}`, or `{user}`, with the word in place."""
    found = re.compile("|".join(map(re.escape, _PLACES)))
    return tuple(found.sub(lambda _: word, label) for label in parse_namespace(pattern))


def check_memory_pattern(pattern: str) -> None:
    """Raise `UsageError` for a pattern that would mean the memory of everyone."""
    if not any(place in label for place in _PLACES for label in parse_namespace(pattern)):
        raise UsageError(
            f"'{pattern}' is the memory of everyone: no {_PLACES[0]} in it",
            hint="write users/{subject}, with {subject} for the person",
        )


def names_of(subject: ErasureSubject, field: str | None) -> tuple[str, ...]:
    """Return what the application calls the people of a subject, to find their memory.

    These are the texts that the field of people is compared with, but for what follows a `not`.
    Without such a field, any field may name them.
    """
    if subject.word is not None:
        return (subject.word,)
    found = list(_affirmed(subject.filter))
    of_people = [one for one in found if _is_of_people(one, field)]
    return tuple(sorted(_texts(of_people if field is not None else of_people or found)))


def words_of(expression: Filter, field: str | None) -> set[str]:
    """Return the texts by which a filter names the person.

    If it asks for a field that holds the user, these are the texts of this field only.
    """
    found = list(_conditions(expression))
    return _texts([one for one in found if _is_of_people(one, field)]) or _texts(found)


def _is_of_people(one: Condition, field: str | None) -> bool:
    own = None if field is None else _condition(field, "x").field
    return one.field == own or _names_person(one.field)


def _texts(found: Iterable[Condition]) -> set[str]:
    return {
        operand.text
        for one in found
        if one.operator in {Operator.EQUAL, Operator.IN} and one.field.name in _NAMING
        for operand in one.operands
    }


def _conditions(expression: Filter) -> Iterator[Condition]:
    if isinstance(expression, Condition):
        yield expression
    for part in parts_of(expression):
        yield from _conditions(part)


def _affirmed(expression: Filter) -> Iterator[Condition]:
    if isinstance(expression, Condition):
        yield expression
    elif not isinstance(expression, Not):
        for part in parts_of(expression):
            yield from _affirmed(part)


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
