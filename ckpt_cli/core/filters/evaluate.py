"""Decide whether a thread matches a filter, as soon as enough about the thread was read.

Logic has two values: a condition holds or does not, and `not` reverses it. A field without a value
is null. A field with several values, such as `status`, matches if any of them does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ckpt_backends.codec.values import Value
from ckpt_cli.core.filters.comparison import value_test
from ckpt_cli.core.filters.expressions import And, Condition, Field, Filter, Not, Or
from ckpt_cli.core.filters.fields import Operator

Facts = Callable[[Field], Sequence[Value] | None]
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
