"""The values of a state: they fold, are searched, copied and pinned, and show their changes."""

import json
from pathlib import Path

import pytest

from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.official import drive
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.testing.screen import Seat, sitting
from ckpt_backends.url import parse_url
from ckpt_cli.queries import diff as module
from ckpt_cli.queries.diff import changed_values, compare
from ckpt_cli.queries.show import view
from ckpt_cli.reading.store import Opening
from ckpt_cli.reading.target import Target
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.folding import BEGINNING, PART, channel_node
from ckpt_cli.render.text import line
from ckpt_cli.tui.panes import document as values
from ckpt_cli.tui.panes import inspector as copying
from ckpt_cli.tui.panes.document import DocumentRows, Folds, StateValues, UnfoldedValues, search
from tests.kit.command import ckpt, first_now
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.opening import empty_store
from tests.screen.stores import stored

pytestmark = pytest.mark.engines


def at_path(seat: Seat, path: str) -> DocumentRows:
    """Move the cursor of the tab State to a value."""
    rows = seat.document
    assert rows.unfolded is not None
    rows.cursor = rows.unfolded.lines_of[path]
    return rows


def row(seat: Seat) -> str:
    """Return the line under the cursor of the tab State."""
    rows = seat.document
    return rows.lines[rows.cursor].text


async def test_what_the_step_changed_is_marked_and_arrows_and_clicks_fold_a_value(
    seat: Seat,
) -> None:
    await seat.press("1", "z")
    rows = seat.document
    signs = {path: rows.lines[at].text[0] for at, path in rows.document.marks.items()}
    assert {path: sign for path, sign in signs.items() if sign != " "} == {
        "itinerary": "~",
        "itinerary[2]": "~",
        "messages": "~",
        "messages[9]": "+",
    }
    # From the tree, too: to each change, not to what holds it.
    await seat.press("z", "escape", "n")
    assert rows.path == "itinerary[2]"
    assert seat.sees("change 1 of 2")
    await seat.press("n")
    assert rows.path == "messages[9]"
    await seat.press("N")
    assert rows.path == "itinerary[2]"
    await seat.press("2", "1", "z")
    assert not seat.sees("change 1 of 2")

    rows = at_path(seat, "messages[2]")
    assert "→ Unfold" in seat.lines[-1]
    assert "▸ 2: ai: [tool_calls: search_trip" in row(seat)
    await seat.press("right", "right")
    assert rows.path == "messages[2].content"
    at_path(seat, "messages[2].tool_calls[0].name")
    await seat.press("left", "left")
    assert "▸ 0: {name: search_trip" in row(seat)
    await seat.press("left", "left", "left", "left")
    assert rows.path == "messages[2]"
    assert "▸ 2: ai" in row(seat)
    # With everything below it, without noise; and folded again.
    await seat.press("E")
    assert "▾ 2  ai" in row(seat)
    assert "name: search_trip" in seat.read
    assert "▸ usage_metadata: {input_tokens" in seat.read
    await seat.press("E")
    assert "▸ 2: ai" in row(seat)
    at_path(seat, "itinerary")
    await seat.rest()
    y = rows.cursor - round(rows.scroll_y)
    # A click beside the sign folds nothing.
    await seat.pilot.click(rows, offset=(20, y))
    assert "▾ itinerary" in row(seat)
    await seat.pilot.click(rows, offset=(2, y))
    await seat.rest()
    assert "▸ itinerary: [" in row(seat)
    assert rows.cursor - round(rows.scroll_y) == y
    await seat.press("2")
    assert "→ Unfold" not in seat.lines[-1]


async def test_a_value_is_copied_and_folds_the_cursor_and_pins_are_kept_from_step_to_step(
    seat: Seat, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await seat.press("w")
    assert seat.said == "no value under the cursor"
    await seat.press("1")
    at_path(seat, "messages[2]")
    await seat.press("w")
    ref = f"{seat.place.thread_id}@{seat.place.checkpoint_id}"
    words = ("-s", sample, "show", ref, "-o", "json", "--path")
    assert json.loads(seat.app.clipboard) == ckpt(*words, "messages[2]").json
    at_path(seat, "destination")
    await seat.press("w")
    assert seat.app.clipboard == "Kyoto"
    assert seat.said == "copied destination: 5 characters"
    monkeypatch.setattr(copying, "_MOST_COPIED", 5)
    await seat.press("4", "g")
    await seat.press("w")
    assert "more than 1 MiB" in seat.said
    assert f"show --path 'messages[0]' {ref}" in seat.said

    await seat.press("1")
    rows = at_path(seat, "offers")
    await seat.press("left", "p")
    assert seat.said == "pinned offers"
    assert rows.path == "offers"
    assert "(pinned)" in row(seat)
    at_path(seat, "messages[2]")
    await seat.press("right", "escape", *["k"] * 12)
    assert "messages[2]" not in rows.document.marks.values()
    await seat.press("G")
    marks = list(rows.document.marks.values())
    assert rows.path == "messages[2]"
    assert marks[0] == "offers"
    assert "offers[0]" not in marks
    assert "messages[2].content" in marks
    await seat.press("1")
    at_path(seat, "offers")
    await seat.press("p")
    assert seat.said == "unpinned offers"
    assert next(iter(rows.document.marks.values())) != "offers"
    # Another thread keeps the folds of channels only, and is read from its start.
    at_path(seat, "messages")
    await seat.press("left", "escape", "escape", "j")
    assert rows.cursor == 0
    await seat.press("1")
    at_path(seat, "messages")
    assert "▸ messages: [" in row(seat)
    await seat.press("right")
    assert "messages[2]" in rows.document.marks.values()
    assert "messages[2].content" not in rows.document.marks.values()


async def test_a_long_list_is_folded_and_a_search_unfolds_what_it_finds(tmp_path: Path) -> None:
    items: list[object] = [{"place": f"stop {n}", "note": {"text": "quiet"}} for n in range(3000)]
    items[2345] = {"place": "stop", "note": {"text": "the Needle"}}
    items.append("lead\n" + "word " * 60_000 + "needle at the end")
    store = stored(tmp_path / "agent.db", {"items": items})
    async with sitting(store) as seat:
        # The first ones are shown, and the last ones are unfolded.
        await seat.see("z 1", "place: stop 0", "place: stop 5")
        rows = seat.document
        assert len(rows.lines) < 200
        await seat.press("G")
        assert rows.lines[-1].text.strip() == "▸ … item 3,000 of 3,001"
        await seat.see("right G", "3000: lead")
        await seat.press("g")
        await seat.search("needle")
        assert rows.path == "items[2345].note.text"
        assert "text: the Needle" in row(seat)
        await seat.press("n")
        assert rows.path == "items[3000]"
        assert "needle at the end" in row(seat)
        await seat.press("N")
        assert "the Needle" in row(seat)
        await seat.search("no such words")
        assert "no match" in seat.said
        # Only what is unfolded has lines.
        assert len(rows.lines) < 3_000


async def test_long_texts_are_wrapped_and_cut_with_a_count(tmp_path: Path) -> None:
    text = "x" * 300 + " " + "y" * 29_700
    store = stored(tmp_path / "agent.db", {"items": [text]})
    async with sitting(store) as seat:
        await seat.press("1", "z")
        rows = at_path(seat, "items[0]")
        assert row(seat).endswith("…  (30,001 characters)")
        await seat.press("right")
        assert row(seat).endswith("▾ 0  (30,001 characters)")
        assert all(len(one.text) <= rows.width for one in rows.lines)
        assert seat.sees("… 28,001 more characters")
        at_path(seat, "items[0] 2000:1")
        await seat.see(
            "right", "▸ … characters 2,000–11,999 of 30,001", "▸ … characters 22,000–30,000"
        )
        await seat.see("right right", "y" * 50)
        shown = sum(one.text.count("y") for one in rows.lines if not one.text.startswith("why"))
        assert shown == 10_000 + 2_000 - 301


@pytest.mark.parametrize("at", [BEGINNING - 3, BEGINNING + PART - 3])
def test_words_are_found_across_the_parts_of_a_text(at: int) -> None:
    text = "x" * at + "Needle" + "y" * 50_000
    *_, hits = search([channel_node("a", 1), channel_node("t", text)], "needle", None)
    (found,) = hits.nodes
    assert found.channel.key == "t"
    assert hits.ended is None


def test_a_search_is_bounded_and_tells_where_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    roots = [channel_node("a", list(range(50))), channel_node("b", ["needle"])]
    *_, hits = search(roots, "needle", "b")
    assert [one.name for one in hits.nodes] == ["b[0]"]
    assert hits.above == 0
    monkeypatch.setattr(values, "MOST_VALUES", 20)
    *_, hits = search(roots, "needle", None)
    assert hits.nodes == []
    assert hits.ended == "a[19]"


def test_lines_are_drawn_when_asked_for_and_end_with_a_note_if_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = StateValues((line("heading"),), {"a": list(range(90)), "b": "x"}, {}, {"a[3]": "added"})
    shown = UnfoldedValues(state, Folds(pinned=["b", "gone"]), 80)
    assert [one.text for one in shown][:3] == ["heading", "    b: x  (pinned)", "  ▾ a  [90 items]"]
    assert (shown[-1].text, shown[6].text) == ("      89: 89", "+     3: 3")
    assert {name: at for at, name in shown.marks.items()} == shown.lines_of
    assert len(shown) == 1 + 1 + 91
    monkeypatch.setattr(values, "MOST_LINES", 20)
    shown = UnfoldedValues(state, Folds(), 80)
    assert len(shown) == 1 + 21 + 1
    assert shown[-1].text == "… more; fold values to see the rest"
    assert shown.node_at(len(shown) - 1) is None


@pytest.mark.parametrize("kind", first_now([SqliteHarness, PostgresHarness]))
def test_what_a_diff_finds_is_marked_wherever_values_are_stored(
    kind: type[Harness],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with empty_store(kind, request, tmp_path) as harness:
        drive(harness.kept_saver, SCENARIOS["chat"])
        with Opening(parse_url(harness.url)).open(lambda _: None) as store:
            reader = ThreadReader(store, "chat")
            seen = set()
            for one in reader.index(""):
                target = Target(reader, "", one.key.checkpoint_id, chosen=True)
                found = view(target, None, writes=False)
                marked = changed_values(target, found)
                changes = compare(target, None, None).changes
                wanted = {name for name, what in changes.items() if what.change != "removed"}
                assert {path[0] for path in marked} == wanted
                assert all(path[:-1] in {(), *marked} for path in marked)
                seen |= set(marked.items())
                with monkeypatch.context() as patched:
                    patched.setattr(module, "_LARGEST", 0)
                    large = changed_values(target, found)
                assert {len(path) for path in large} <= {1}
                assert {path[0] for path in large} >= wanted
    assert {(("messages",), "changed"), (("messages", 2), "added")} <= seen
