"""Items of memory: their names, which are wanted, where facts came from, and how they are shown."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ckpt_backends.codec.values import Value
from ckpt_backends.memory import Item, ItemKey, Source, Vector
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.memory import (
    ItemFilter,
    duplicates,
    format_key,
    format_namespace,
    item_keys,
    likeliest,
    named_source,
    orphans,
    parse_namespace,
    source_of,
    text_of,
)
from ckpt_cli.plans.copy import _difference
from ckpt_cli.queries.memory import FoundItem
from ckpt_cli.render.memory import ITEM, item_lines, tree_lines
from ckpt_cli.render.text import Ui
from tests.kit.cases import cases

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@cases("namespace", (), ("users",), ("a/b", "\\e.", ""), ("", ""), ("/", "a\\", "b"))
def test_a_namespace_is_read_as_it_was_written(namespace: tuple[str, ...]) -> None:
    assert parse_namespace(format_namespace(namespace)) == namespace
    for key in ("", "plain", "a/b\\", "/"):
        one = ItemKey(namespace, key)
        assert not namespace or one in list(item_keys(format_key(one)))


def test_slashes_stand_between_labels_and_in_keys() -> None:
    assert parse_namespace("/users//anna/") == ("users", "anna")
    assert parse_namespace("") == ()
    assert list(item_keys("a/b/c")) == [ItemKey(("a", "b"), "c"), ItemKey(("a",), "b/c")]
    assert list(item_keys("plain")) == []


WRITTEN = NOW - timedelta(days=2)
FACT = Item(
    ItemKey(("facts",), "fact-1"),
    NOW,
    WRITTEN,
    10,
    expires_at=NOW - timedelta(seconds=1),
    category="preference",
    confidence=0.8,
    source=Source("thread", "user-42"),
)
BARE = Item(ItemKey(("facts",), "bare"), None, None, 10)


@cases(
    "wanted fact bare",
    (ItemFilter(), True, True),
    (ItemFilter(match="fact-*"), True, False),
    (ItemFilter(expired=True), True, False),
    (ItemFilter(category="preference"), True, False),
    (ItemFilter(min_confidence=0.9), False, False),
    (ItemFilter(source="user-4"), False, False),
    (ItemFilter(source="user-42", min_confidence=0.8, since=WRITTEN, until=WRITTEN), True, False),
    (ItemFilter(expired=False), False, True),
    (ItemFilter(user="facts"), True, True),
    (ItemFilter(user="fact-1"), False, False),
    (ItemFilter(since=NOW - timedelta(days=1)), False, False),
    (ItemFilter(until=NOW - timedelta(days=3)), False, False),
)
def test_each_condition_that_is_given_must_hold(wanted: ItemFilter, fact: bool, bare: bool) -> None:
    assert wanted.fits(FACT, NOW) is fact
    assert wanted.fits(BARE, NOW) is bare


@cases(
    "there said",
    (replace(FACT, updated_at=NOW), "a newer one"),
    (replace(FACT, updated_at=WRITTEN - timedelta(days=1)), "an older one"),
    (replace(FACT, expires_at=None), "one that expires at another time"),
    (FACT, "another one"),
)
def test_how_an_item_of_the_target_differs(there: Item, said: str) -> None:
    assert _difference(FACT, there) == f"the target has {said}"


@cases(
    "fact texts index sentence",
    ("Prefers Go", ["Hi!", "I like tea. My team prefers Go."], 1, "My team prefers Go."),
    ("喜欢喝茶", ["我喜欢咖啡。", "今天下雨。我喜欢喝茶！"], 1, "我喜欢喝茶！"),
    ("ＧｏとPython", ["go", "python", "Go and Python"], 2, "Go and Python"),
    ("茶", ["咖啡", "茶"], 1, "茶"),
    ("v2.5 is out", ["Is v2.5 out?\nWell"], 0, "Is v2.5 out?"),
)
def test_the_likeliest_sentence(fact: str, texts: list[str], index: int, sentence: str) -> None:
    found = likeliest(fact, texts)
    assert found is not None
    assert (found.index, found.sentence) == (index, sentence)
    assert 0 < found.shared <= 1
    assert likeliest(fact, []) is likeliest("", texts) is likeliest("zzz", texts) is None


def fact_of(key: str, content: object, *, day: int = 1, thread: str | None = None) -> Item:
    data = json.dumps({"content": content}).encode()
    return Item(
        ItemKey(("facts",), key),
        created_at=datetime(2026, 1, day, tzinfo=UTC),
        updated_at=None,
        size=len(data),
        value=TypedBytes("json", data),
        source=None if thread is None else Source("thread", thread),
    )


def test_duplicates_and_facts_whose_thread_is_gone_are_found() -> None:
    same = [fact_of("a", "Tea ", day=3), fact_of("b", " tea", day=2), fact_of("c", "TEA", day=4)]
    same.append(replace(fact_of("d", "tea"), created_at=None))
    others = [fact_of(f"{n}", said) for n, said in enumerate(["coffee", "", " ", None, 5])]
    others.append(replace(same[0], key=ItemKey(("other",), "a")))
    first = ItemKey(("facts",), "b")
    again = (same[0], same[2], same[3])
    assert duplicates([*same, *others]) == {one.key: first for one in again}
    asked: list[str] = []

    def is_there(thread_id: str) -> bool:
        asked.append(thread_id)
        return thread_id == "here"

    items = [fact_of(str(n), "x", thread=t) for n, t in enumerate(["here", "gone", "gone", None])]
    assert {key.key for key in orphans(items, is_there)} == {"1", "2"}
    assert asked == ["here", "gone"]


def test_an_item_says_and_names_where_it_came_from() -> None:
    assert text_of(fact_of("a", "tea")) == "tea"
    data = b'{"a": "x", "b": [{"c": "y"}, 5], "thread_id": "t"}'
    other = Item(ItemKey((), "k"), None, None, len(data), value=TypedBytes("json", data))
    assert text_of(other).split("\n")[:2] == ["x", "y"]
    assert source_of(other) == Source("thread", "t")
    assert named_source({"thread_id": "t"}) == Source("thread", "t")
    assert named_source({"metadata": {"thread_id": "t"}}) == Source("thread", "t")
    assert named_source({"source": {"threadId": "t"}}) == Source("thread", "t")
    nothing: list[Value] = [{}, {"thread_id": ""}, {"thread_id": 5}, {"source": "t"}, ["x"], None]
    assert [named_source(value) for value in nothing] == [None] * len(nothing)


def test_what_is_known_of_a_fact_is_told() -> None:
    fact = FoundItem(
        replace(FACT, vectors=(Vector("text", 16), Vector("title", 16))), is_expired=True
    )
    line = [one.text for one in tree_lines([fact], Ui(NOW, width=0))][-1]
    known = (
        "expired 1s ago",
        "vectors text, title",
        "preference",
        "confidence 0.80",
        "from user-42",
    )
    assert [part for part in known if part not in line] == []
    text = "\n".join(one.text for one in item_lines(fact, Ui(NOW, width=80)))
    for part in ("preference, confidence 0.80", "thread user-42", "text, 16 B", "expired"):
        assert part in text
    bare = FoundItem(BARE, is_expired=False)
    assert not {"category", "confidence", "source"} & ITEM.record(bare).keys()
