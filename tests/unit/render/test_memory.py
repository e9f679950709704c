"""Items on a screen: aligned, with what is known of facts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ckpt_backends.memory import Item, ItemKey, Source, Vector
from ckpt_cli.queries.memory import FoundItem
from ckpt_cli.render.memory import ITEM, item_lines, tree_lines
from ckpt_cli.render.text import Ui, cell_len

NOW = datetime(2026, 5, 1, tzinfo=UTC)


UI = Ui(NOW, width=0)


def item(key: str, namespace: tuple[str, ...] = ("users", "anna"), **more: object) -> FoundItem:
    one = Item(ItemKey(namespace, key), None, NOW - timedelta(hours=3), 46, **more)  # type: ignore[arg-type]
    return FoundItem(one, is_expired=one.expires_at is not None)


def test_wide_characters_are_aligned() -> None:
    lines = [line.text for line in tree_lines([item("tea"), item("記憶記憶")], UI)]
    assert lines[:2] == ["users/", "  anna/"]
    assert {cell_len(line[: line.index("3h ago")]) for line in lines[2:]} == {4 + 8 + 4}


def test_a_long_key_is_whole_and_moves_no_other() -> None:
    lines = [line.text for line in tree_lines([item("k" * 200), item("short")], UI)]
    assert "k" * 200 in lines[2]
    assert lines[3].index("3h ago") < 60


def test_labels_are_drawn_once_in_each_place() -> None:
    items = [item("a", ("x",)), item("b", ("x", "y")), item("c", ("z", "y"))]
    found = [line.text for line in tree_lines(items, UI) if line.text.endswith("/")]
    assert found == ["x/", "  y/", "z/", "  y/"]


def test_what_is_known_of_a_fact_is_told() -> None:
    fact = item(
        "f",
        vectors=(Vector("text", 16), Vector("title", 16)),
        category="goal",
        confidence=0.9,
        source=Source("thread", "user-42"),
        expires_at=NOW - timedelta(days=1),
    )
    line = [one.text for one in tree_lines([fact], UI)][-1]
    for part in (
        "expired 1d ago",
        "vectors text, title",
        "goal",
        "confidence 0.90",
        "from user-42",
    ):
        assert part in line
    shown = item_lines(fact._replace(value={"x": 1}), Ui(NOW, width=80))
    text = "\n".join(one.text for one in shown)
    for part in ("goal, confidence 0.90", "thread user-42", "text, 16 B", "x: 1"):
        assert part in text
    record = ITEM.record(fact)
    assert record["source"] == {"kind": "thread", "thread_id": "user-42"}
    assert (record["category"], record["confidence"]) == ("goal", 0.9)
    assert not {"category", "confidence", "source"} & ITEM.record(item("k")).keys()
