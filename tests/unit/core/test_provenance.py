"""Which message a fact most likely came from, and which facts say the same."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.codec.values import Value
from ckpt_backends.memory import Item, ItemKey, Source
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.memory import duplicates, likeliest, named_source, orphans, source_of, text_of


@pytest.mark.parametrize(
    ("fact", "texts", "index", "sentence"),
    [
        ("Prefers Go", ["Hi!", "I like tea. My team prefers Go."], 1, "My team prefers Go."),
        ("喜欢喝茶", ["我喜欢咖啡。", "今天下雨。我喜欢喝茶！"], 1, "我喜欢喝茶！"),
        ("ＧｏとPython", ["go", "python", "Go and Python"], 2, "Go and Python"),
        ("uses the CI", ["the the the", "the CI is slow"], 1, "the CI is slow"),
        ("tea", ["tea", "tea again"], 1, "tea again"),
        ("茶", ["咖啡", "茶"], 1, "茶"),
        ("v2.5 is out", ["Is v2.5 out?\nWell"], 0, "Is v2.5 out?"),
    ],
)
def test_the_likeliest_message_and_its_sentence(
    fact: str, texts: list[str], index: int, sentence: str
) -> None:
    found = likeliest(fact, texts)
    assert found is not None
    assert (found.index, found.sentence) == (index, sentence)
    assert 0 < found.shared <= 1


@pytest.mark.parametrize(("fact", "texts"), [("", ["a"]), ("a", []), ("a", ["b"]), ("!?", ["!?"])])
def test_where_nothing_fits_there_is_none(fact: str, texts: list[str]) -> None:
    assert likeliest(fact, texts) is None


@given(st.text(max_size=50), st.lists(st.text(max_size=50), max_size=3))
def test_any_text_may_be_compared(fact: str, texts: list[str]) -> None:
    found = likeliest(fact, texts)
    if found is not None:
        assert found.sentence in texts[found.index]


def test_a_value_may_name_its_thread() -> None:
    assert named_source({"thread_id": "t"}) == Source("thread", "t")
    assert named_source({"metadata": {"thread_id": "t"}}) == Source("thread", "t")
    assert named_source({"source": {"threadId": "t"}}) == Source("thread", "t")
    nothing: list[Value] = [{}, {"thread_id": ""}, {"thread_id": 5}, {"source": "t"}, ["x"], None]
    assert [named_source(value) for value in nothing] == [None] * len(nothing)


def item(key: str, content: object, *, day: int = 1, thread: str | None = None) -> Item:
    data = json.dumps({"content": content}).encode()
    return Item(
        ItemKey(("facts",), key),
        created_at=datetime(2026, 1, day, tzinfo=UTC),
        updated_at=None,
        size=len(data),
        value=TypedBytes("json", data),
        source=None if thread is None else Source("thread", thread),
    )


def test_of_facts_that_say_the_same_the_oldest_is_kept() -> None:
    same = [item("a", "Tea ", day=3), item("b", " tea", day=2), item("c", "TEA", day=4)]
    others = [item("d", "coffee"), item("e", ""), item("f", " "), item("g", None), item("h", 5)]
    first = ItemKey(("facts",), "b")
    assert duplicates([*same, *others]) == {same[0].key: first, same[2].key: first}


def test_a_thread_is_looked_for_once() -> None:
    asked: list[str] = []

    def is_there(thread_id: str) -> bool:
        asked.append(thread_id)
        return thread_id == "here"

    items = [item(str(n), "x", thread=t) for n, t in enumerate(["here", "gone", "gone", None])]
    assert {key.key for key in orphans(items, is_there)} == {"1", "2"}
    assert asked == ["here", "gone"]
    assert duplicates(items)[items[1].key] == items[0].key


def test_what_an_item_says_and_where_it_came_from() -> None:
    assert text_of(item("a", "tea")) == "tea"
    data = b'{"a": "x", "b": [{"c": "y"}, 5], "thread_id": "t"}'
    other = Item(ItemKey((), "k"), None, None, len(data), value=TypedBytes("json", data))
    assert text_of(other).split("\n")[:2] == ["x", "y"]
    assert source_of(other) == Source("thread", "t")
