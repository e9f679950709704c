"""Names of namespaces and items, and which items are wanted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.memory import Item, ItemKey, Source
from ckpt_cli.core.memory import (
    ItemFilter,
    format_key,
    format_namespace,
    is_expired,
    item_keys,
    parse_namespace,
)

NOW = datetime(2026, 5, 1, tzinfo=UTC)
LABELS = st.text(alphabet="ab/\\e.", max_size=4)


@given(st.lists(LABELS, max_size=4).map(tuple))
def test_a_namespace_is_read_as_it_was_written(namespace: tuple[str, ...]) -> None:
    assert parse_namespace(format_namespace(namespace)) == namespace


@given(st.lists(LABELS, min_size=1, max_size=3).map(tuple), LABELS)
def test_an_item_is_found_by_what_it_is_called(namespace: tuple[str, ...], key: str) -> None:
    one = ItemKey(namespace, key)
    assert one in list(item_keys(format_key(one)))


def test_slashes_at_an_end_mean_nothing() -> None:
    assert parse_namespace("/users//anna/") == ("users", "anna")
    assert parse_namespace("") == ()


def test_a_key_may_hold_slashes() -> None:
    assert list(item_keys("a/b/c")) == [ItemKey(("a", "b"), "c"), ItemKey(("a",), "b/c")]
    assert list(item_keys("plain")) == []


FACT = Item(
    ItemKey(("facts",), "fact-1"),
    NOW,
    NOW - timedelta(days=2),
    10,
    expires_at=NOW - timedelta(seconds=1),
    category="preference",
    confidence=0.8,
    source=Source("thread", "user-42"),
)
BARE = Item(ItemKey(("facts",), "bare"), None, None, 10)


@pytest.mark.parametrize(
    ("wanted", "fact", "bare"),
    [
        (ItemFilter(), True, True),
        (ItemFilter(match="fact-*"), True, False),
        (ItemFilter(match="FACT-*"), False, False),
        (ItemFilter(expired=True), True, False),
        (ItemFilter(expired=False), False, True),
        (ItemFilter(category="preference"), True, False),
        (ItemFilter(category="goal"), False, False),
        (ItemFilter(min_confidence=0.8), True, False),
        (ItemFilter(min_confidence=0.9), False, False),
        (ItemFilter(source="user-42"), True, False),
        (ItemFilter(source="user-4"), False, False),
        (ItemFilter(since=NOW - timedelta(days=2)), True, False),
        (ItemFilter(since=NOW - timedelta(days=1)), False, False),
        (ItemFilter(until=NOW - timedelta(days=2)), True, False),
        (ItemFilter(until=NOW - timedelta(days=3)), False, False),
        (ItemFilter(category="preference", min_confidence=0.9), False, False),
    ],
)
def test_every_condition_that_is_given_must_hold(
    wanted: ItemFilter, fact: bool, bare: bool
) -> None:
    assert wanted.fits(FACT, NOW) is fact
    assert wanted.fits(BARE, NOW) is bare


def test_a_moment_to_come_has_not_expired() -> None:
    assert is_expired(FACT, NOW)
    assert not is_expired(FACT, NOW - timedelta(minutes=1))
    assert not is_expired(BARE, NOW)
