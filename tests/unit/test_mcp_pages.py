"""Pages of an answer: bounded, complete, and never of another call."""

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.errors import UsageError
from ckpt_cli.mcp.tools import (
    Item,
    PageStart,
    call_key,
    cut,
    from_cursor,
    line,
    structured,
    to_cursor,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=3000)
ITEM = st.one_of(
    TEXT, st.dictionaries(st.text("abc", min_size=1), st.one_of(TEXT, st.integers()), max_size=3)
)


@given(st.lists(ITEM, max_size=20), st.integers(1900, 6000))
def test_pages_hold_all_items_and_each_is_bounded(items: list[Item], size: int) -> None:
    place: PageStart | None = PageStart()
    found: list[Item] = []
    parts = ""
    while place is not None:
        page = cut(iter(items), place, size)
        assert page.items or not items
        for one in page.items:
            if isinstance(one, dict) and "part" in one:
                part: Any = one
                assert part["from"] == len(parts)
                parts += part["part"]
                if len(parts) == part["of"]:
                    found.append(parts)
                    parts = ""
            else:
                found.append(one)
        structured = [{"line": one} if isinstance(one, str) else one for one in page.items]
        assert len("\n".join(map(line, page.items))) <= size
        assert len(json.dumps(structured, ensure_ascii=False)) <= size
        assert page.following != place
        place = page.following
    assert len(found) == len(items)
    for one, original in zip(found, items, strict=True):
        assert one in (original, line(original))


def test_a_cursor_belongs_to_its_call() -> None:
    key = call_key("history", {"thread": "a", "cursor": "x"})
    assert key == call_key("history", {"thread": "a", "max_chars": 2000})
    cursor = to_cursor(PageStart(3, 7), key)
    assert from_cursor(cursor, key) == PageStart(3, 7)
    with pytest.raises(UsageError):
        from_cursor(cursor, call_key("history", {"thread": "b"}))
    places = [PageStart(*one) for one in [(-1,), (0, -1), (10**19,), (10**30,), (0, 10**30)]]
    for wrong in ("", "%", "AAAA", *(to_cursor(place, key) for place in places)):
        with pytest.raises(UsageError):
            from_cursor(wrong, key)
    last = from_cursor(to_cursor(PageStart(sys.maxsize), key), key)
    assert cut([{"a": 1}], last, 2000).items == []
    with pytest.raises(UsageError, match="not from this call"):
        cut([{"a": 1}], from_cursor(to_cursor(PageStart(0, 10**9), key), key), 2000)


def test_a_call_stops_at_the_next_item_if_it_is_cancelled_or_its_time_is_over() -> None:
    from ckpt_cli.mcp.server import Stopped, Stopping

    watch = Stopping(60)
    items = watch(range(5))
    assert next(items) == 0
    watch.cancel()
    with pytest.raises(Stopped):
        next(items)
    with pytest.raises(Stopped, match="after 0 s") as error:
        list(Stopping(0)(range(5)))
    assert "a larger --timeout" in str(error.value.hint)


def test_texts_in_json_are_shown_as_in_the_text() -> None:
    it = structured({"a\u202e": ["x\u2066y\n", {"b": "\x1b[2J\ud800"}], "n": 7, "e": "\U0001f600"})
    assert it == {"a\\u202e": ["x\\u2066y\n", {"b": "\\x1b[2J\\ud800"}], "n": 7, "e": "\U0001f600"}
    assert structured("a\u202eb") == {"line": "a\\u202eb"}
    hidden = {"text": "\u202e" * 3000}
    page = cut([hidden, hidden], PageStart(), 20_000)
    assert len(json.dumps([structured(one) for one in page.items], ensure_ascii=False)) <= 20_000
