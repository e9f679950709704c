"""Decides whether a thread matches a filter, from the cheapest facts first."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import reduce
from os.path import commonprefix

from ckpt_backends.codec.values import Cut, Opaque, Value
from ckpt_backends.errors import NotFound
from ckpt_backends.model import Status
from ckpt_backends.thread_bounds import ALL_THREADS, ThreadBounds
from ckpt_cli.core.filters.language import (
    EPOCH,
    FIELDS,
    And,
    Condition,
    Filter,
    FilterField,
    Not,
    Operator,
    Or,
    read_operand,
    value_test,
)
from ckpt_cli.core.state import ERROR, INTERRUPT
from ckpt_cli.core.values import Path, select

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
            return lambda facts: _opposite(inner(facts))
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


def _opposite(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


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
            return _like(condition.operands[0].text)
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


def _like(pattern: str) -> ThreadBounds:
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
