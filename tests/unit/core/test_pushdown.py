"""Bounds of filters: each thread that matches is within them, and they leave out what they can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ckpt_backends.codec.values import Value
from ckpt_backends.model import ALL_THREADS, Status, Thread, ThreadBounds
from ckpt_cli.core.filters import (
    EPOCH,
    FIELDS,
    SECOND,
    And,
    Condition,
    Filter,
    FilterField,
    Not,
    Operand,
    Operator,
    Or,
    bounds_of,
    decision,
    parse_filter,
)
from ckpt_cli.core.state import ERROR, INTERRUPT
from ckpt_cli.queries.threads import Selection, bounds_of_selection, matching

NOW = datetime(2026, 4, 7, 12, tzinfo=UTC)
TEXTS = ["", "a", "ab", "abc", "b", "a%", "a_c", "é", "\ud800", "null"]
CHANNELS = {Status.ERROR: ERROR, Status.INTERRUPTED: INTERRUPT}
TIMES = ["2026-04-07T12:00:00+00:00", "2026-04-07T11:58:30+00:00", "0001-01-01T00:00:00+00:00"]
DURATIONS = ["0s", "1s", "90s", "2h", "7d", "4000w", "200000w"]


@dataclass(frozen=True, slots=True)
class Known:
    """A thread, and what is known of its head. As a function, it is the `Facts` of a filter."""

    thread: Thread
    conditions: tuple[Status, ...]
    channels: frozenset[str]

    def __call__(self, field: FilterField) -> Sequence[Value]:
        match field.name:
            case "thread":
                return (self.thread.thread_id,)
            case "user":
                return (self.thread.user,)
            case "status":
                return self.conditions
            case "idle":
                at = self.thread.last_at
                return (None if at is None else (NOW - at).total_seconds(),)
            case "last_at":
                at = self.thread.last_at
                return (None if at is None else (at - EPOCH) / SECOND,)
            case "error":
                return ("abc" if Status.ERROR in self.conditions else None,)
        return (None,)


@st.composite
def known(draw: st.DrawFn) -> Known:
    seconds = st.sampled_from([-5, 0, 1, 90, 7200, 7200.000001, 604800, 10**6])
    ago = draw(st.none() | seconds | st.floats(-100, 10**7))
    at = None if ago is None else NOW - timedelta(seconds=ago)
    user = draw(st.none() | st.sampled_from(TEXTS))
    thread = Thread(draw(st.sampled_from(TEXTS)), "head", at, at, 1, 1, user)
    conditions = draw(st.lists(st.sampled_from(Status), min_size=1, max_size=2))
    caused = {CHANNELS[one] for one in conditions if one in CHANNELS}
    others = draw(st.frozensets(st.sampled_from(list(CHANNELS.values()))))
    return Known(thread, tuple(conditions), others | caused)


def operands(name: str) -> st.SearchStrategy[Operand]:
    texts = {"status": [*Status], "idle": DURATIONS, "last_at": TIMES, "step": ["1", "-1"]}.get(
        name, TEXTS
    )
    return st.builds(Operand, st.sampled_from(texts), st.booleans())


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    names = ["thread", "thread", "user", "status", "status", "error", "idle", "last_at", "step"]
    name = draw(st.sampled_from(names))
    operator = draw(st.sampled_from(FIELDS[name].operators))
    if operator is Operator.LIKE:
        patterns = ["%", "a%", "a_%", "ab", r"a\%", "\\", "_", "a%c", "%c"]
        return Condition(FilterField(name), operator, (Operand(draw(st.sampled_from(patterns))),))
    if operator is Operator.REGEX:
        return Condition(FilterField(name), operator, (Operand("^a", quoted=True),))
    most = 3 if operator is Operator.IN else 1
    given_ = draw(st.lists(operands(name), min_size=1, max_size=most))
    if operator in {Operator.EQUAL, Operator.UNEQUAL, Operator.IN} and draw(st.booleans()):
        given_[-1] = Operand("null")
    elif operator not in {Operator.EQUAL, Operator.UNEQUAL, Operator.IN}:
        given_ = [Operand(one.text, quoted=one.quoted or one.text == "null") for one in given_]
    return Condition(FilterField(name), operator, tuple(given_))


def joined(parts: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    some = st.lists(parts, min_size=2, max_size=3).map(tuple)
    return st.builds(Not, parts) | st.builds(And, some) | st.builds(Or, some)


FILTERS: st.SearchStrategy[Filter] = st.recursive(conditions(), joined, max_leaves=6)


def admits(bounds: ThreadBounds, one: Known) -> bool:
    channels = bounds.head_channels
    return bounds.admits(one.thread) and (channels is None or not channels.isdisjoint(one.channels))


@given(FILTERS, st.lists(known(), min_size=1, max_size=8))
@example(
    parse_filter("idle < 200000w"),
    [Known(Thread("a", None, NOW, NOW, 1, 1), (Status.EMPTY,), frozenset())],
)
def test_each_thread_that_matches_is_within_the_bounds(
    expression: Filter, threads: list[Known]
) -> None:
    decide, bounds = decision(expression), bounds_of(expression, NOW)
    for one in threads:
        assert not decide(one) or admits(bounds, one), (bounds, one)


def ago(**length: float) -> datetime:
    return NOW - timedelta(**length)


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("thread = a", ThreadBounds(ids=frozenset("a"))),
        ("thread in (a, b) and not thread != a", ThreadBounds(ids=frozenset("a"))),
        ("thread = a and thread = b", ThreadBounds(ids=frozenset())),
        ("thread like 'ab%' and thread like 'abc_'", ThreadBounds(prefix="abc")),
        ("thread like 'ab%' or thread in (abc, ad)", ThreadBounds(prefix="a")),
        (r"thread like 'a\%b'", ThreadBounds(ids=frozenset({"a%b"}))),
        ("user = anna", ThreadBounds(users=frozenset({"anna"}))),
        ("user in (anna, null)", ALL_THREADS),
        ("idle > 2h", ThreadBounds(until=ago(hours=2) + SECOND)),
        (
            "idle <= 2h and idle > 1h",
            ThreadBounds(since=ago(hours=2) - SECOND, until=ago(hours=1) + SECOND),
        ),
        ("idle < 1h or idle < 2h", ThreadBounds(since=ago(hours=2) - SECOND)),
        ("not idle < 1h", ALL_THREADS),
        ("idle = 200000w", ALL_THREADS),
        ("last_at >= 2026-04-07T12:00:00Z", ThreadBounds(since=NOW - SECOND)),
        ("last_at < 2026-04-07T12:00:00Z", ThreadBounds(until=NOW + SECOND)),
        ("error != null", ThreadBounds(head_channels=frozenset({ERROR}))),
        ("error like '%timeout%'", ThreadBounds(head_channels=frozenset({ERROR}))),
        ("error not like '%timeout%'", ALL_THREADS),
        ("error = null", ALL_THREADS),
        ("status = error", ThreadBounds(head_channels=frozenset({ERROR}))),
        (
            "status = error or status = interrupted",
            ThreadBounds(head_channels=frozenset({ERROR, INTERRUPT})),
        ),
        (
            "status in (error, interrupted) and status = error",
            ThreadBounds(head_channels=frozenset({ERROR})),
        ),
        ("status in (error, pending)", ALL_THREADS),
        ("not (status != error or step = 1)", ThreadBounds(head_channels=frozenset({ERROR}))),
        ("status = error or step = 1", ALL_THREADS),
        ("(status = error or user = a) and values.x = 1", ALL_THREADS),
    ],
)
def test_what_the_index_can_answer_is_found(text: str, bounds: ThreadBounds) -> None:
    assert bounds_of(parse_filter(text), NOW) == bounds


@given(
    st.text("ab*?[]!-", max_size=5), st.lists(st.text("ab*?[]", max_size=4), min_size=1, max_size=9)
)
@example("a", ["a", "ab"])
@example("a*", ["a", "ab", "b"])
def test_bounds_of_a_pattern_admit_each_thread_that_it_matches(
    pattern: str, ids: list[str]
) -> None:
    wanted = Selection(match=pattern)
    bounds = bounds_of_selection(wanted, NOW)
    threads = [Thread(one, None, NOW, NOW, 1, 1) for one in ids]
    assert all(map(bounds.admits, matching(threads, wanted)))


def test_the_parts_of_a_selection_bound_it_together() -> None:
    wanted = Selection(
        match="ab*",
        since=ago(days=2),
        user="anna",
        status=frozenset({Status.ERROR}),
        where=parse_filter("thread like 'abc%' and idle < 1d"),
    )
    assert bounds_of_selection(wanted, NOW) == ThreadBounds(
        prefix="abc",
        since=ago(days=1) - SECOND,
        users=frozenset({"anna"}),
        head_channels=frozenset({ERROR}),
    )
