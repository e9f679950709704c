"""The tabs of a checkpoint and of a thread: their labels, what they show, and the way there."""

import json
import shlex
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import interrupt

from ckpt_backends.errors import CkptError, Unreadable
from ckpt_backends.sqlite.store import SqliteStore
from ckpt_backends.testing.official import config_of
from ckpt_backends.testing.screen import Seat, sitting
from ckpt_backends.url import parse_url
from ckpt_cli.queries import diff as module
from ckpt_cli.queries.diff import changed_values, compare
from ckpt_cli.queries.doctor import examine
from ckpt_cli.queries.show import view
from ckpt_cli.queries.timeline import read_steps
from ckpt_cli.reading.graphs import GraphPaths
from ckpt_cli.reading.store import Opening
from ckpt_cli.reading.target import Target
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.folding import BEGINNING, PART, channel_node
from ckpt_cli.render.text import line
from ckpt_cli.tui import context
from ckpt_cli.tui.context import CheckRules
from ckpt_cli.tui.panes import document as values
from ckpt_cli.tui.panes import inspector as copying
from ckpt_cli.tui.panes.document import DocumentRows, Folds, StateValues, UnfoldedValues, search
from ckpt_cli.tui.panes.inspector import tab_labels
from ckpt_cli.tui.tabs import thread as thread_tabs
from ckpt_cli.tui.tabs.checkpoint import SidesRows
from ckpt_cli.tui.tabs.content import TABS
from tests.kit.agents import failing as agents
from tests.kit.agents.asking import CONFIG, Two, asked
from tests.kit.agents.small import Log, chain, running
from tests.kit.command import SAMPLE, ckpt, ids_of
from tests.kit.harness.three_table import MAKER, connected
from tests.kit.probing import document_of
from tests.screen.stores import stored

pytestmark = pytest.mark.engines


async def test_each_tab_shows_its_part_and_messages_lead_to_steps(seat: Seat, sample: Path) -> None:
    says = {
        "1": ["next", "booking", "KYO-HKK-0407"],
        "2": ["--- step 11", "+++ step 12 · reply · f169", "itinerary"],
        "3": ["writes that produced this checkpoint", "last_value"],
        "4": ["human", "Five nights in Kyoto"],
        "6": ["no task of this thread failed"],
        "7": ["checked 1 thread", "no findings"],
        "8": ["parent", "channel_versions", "source"],
        "9": ["where", "body", "000000"],
        "5": ["14 steps", "planner > check_weather", "answered"],
    }
    await seat.press("z")
    for key, words in says.items():
        await seat.press(key)
        assert [one for one in words if one not in seat.read] == [], (key, seat.read)
    await seat.see("C", "ckpt tui --compat NEW.json")
    blame = ("-s", sample, "blame", "trip-to-kyoto", "messages[1]", "-o", "json")
    await seat.press("z", "4", "g", "j", "j", "j", "enter")
    assert seat.place.checkpoint_id == ckpt(*blame).json["checkpoint_id"]
    assert seat.main.inspector.tab == "writes"
    assert seat.tree.has_focus


async def test_a_question_that_the_layout_cannot_answer_is_not_asked_again(tmp_path: Path) -> None:
    store = tmp_path / "three.db"
    with connected(str(store)) as execute:
        MAKER.fill("sqlite", execute)
    async with sitting(store) as seat:
        assert seat.sees("1 thread ")
        await seat.see("9", "cannot print the stored bytes")
        assert not seat.sees("retrying")


def test_labels_fit_into_the_pane_and_differ() -> None:
    for active, width in product(TABS, range(28, 200)):
        labels = tab_labels(width, active)
        assert sum(len(one) + 1 for one in labels) <= width
        assert len(set(labels)) == len(TABS)
        assert labels[TABS.index(active)][-3:].isalpha()


@pytest.mark.screen(size=(80, 24))
async def test_labels_and_bars_use_the_width(seat: Seat) -> None:
    await seat.press("enter", "5")
    assert seat.sees("book", "█████")
    (shown,) = (one for one in seat.lines if "State" in one)
    assert shown.split()[-10:-8] == ["State", "Diff"]
    tabs = seat.main.inspector.tabs
    assert all(tabs.query_one(f"#{one}").region.right <= 80 for one in TABS)
    await seat.pilot.resize_terminal(200, 40)
    await seat.rest()
    assert seat.sees("1 State 2 Diff 3 Writes 4 Messages 5 Timeline 6 Errors")
    await seat.press("z")
    assert max(one.rfind("█") for one in seat.read.splitlines()) > 150


def waiting(name: str) -> Any:
    return chain(Log, {name: lambda _: {"log": [interrupt("sure?")]}})


async def test_a_tab_shows_what_a_new_graph_does(tmp_path: Path) -> None:
    with running(tmp_path / "s.db", waiting("ask")) as agent:
        agent.invoke({"log": []}, config_of("trip"))
    paths = [tmp_path / f"{name}.json" for name in ("new", "old")]
    for path, node in zip(paths, ("review", "ask"), strict=True):
        path.write_text(json.dumps(document_of(waiting(node))))
    opening = Opening(parse_url(str(tmp_path / "s.db")), graphs=GraphPaths(*paths))
    async with sitting(tmp_path / "s.db", opening=opening) as seat:
        await seat.see("C", "In the new graph, trip", "C Compat")
        assert seat.read.startswith("loses  by graph\n\nloses  ask  node-gone\n")
        words = ("compat", *map(str, paths), "--match trip")
        assert any(all(word in one for word in words) for one in seat.main.command_lines())


async def test_all_failures_of_a_thread_are_listed_with_what_became_of_them(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    world = agents.fill(store, agents.inner_crash, "trip")
    world.is_down = False
    with agents.running(store, agents.inner_crash, world) as graph:
        graph.invoke(None, config_of("trip"))
        world.is_down = True
        with pytest.raises(TimeoutError) as raised:
            graph.invoke(agents.INPUT, config_of("trip"))
    printed = ckpt("-s", store, "errors", "trip", "--history", "-o", "json").json
    assert [one["state"] for one in printed] == ["failed", "retried"]
    async with sitting(store) as seat:
        await seat.press("enter", "6")
        lines = seat.read.splitlines()
        assert lines[0] == "2 failed tasks: 1 waiting for a retry, 1 retried"
        assert lines[2].startswith("failed  step 0  research > inner > crash  ")
        assert lines[3] == f"  {raised.value!r}"
        assert lines[5].startswith("retried step 0  research > inner > crash  ")
        listed = ckpt(*shlex.split(seat.main.command_lines()[0])[1:], "-o", "json").json
        assert [one["state"] for one in listed] == ["failed", "retried"]
        # Enter goes to the checkpoint, inside its subgraph.
        await seat.press("G", "enter")
        assert seat.tree.has_focus
        place = seat.place
        assert place.checkpoint_id == printed[1]["checkpoint_id"]
        assert place.checkpoint_ns == printed[1]["checkpoint_ns"]


def signed(seat: Seat) -> str:
    """The line of the timeline with the sign."""
    rows = seat.document
    (found,) = (one for at in range(rows.count()) if "▸" in (one := rows.line_at(at, 200).text))
    return found


async def test_a_timeline_follows_the_cursor(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Mock(wraps=read_steps)
    monkeypatch.setattr(thread_tabs, "read_steps", read)
    async with sitting(sample) as seat:
        rows = seat.document
        await seat.press("enter", "k", "k", "k", "5")
        assert signed(seat).split()[:3] == ["▸", "7", "book"]
        assert rows.cursor in rows.seen
        shown = rows.document
        await seat.press("escape", "G")
        assert signed(seat).split()[:3] == ["▸", "12", "reply"]
        assert rows.document is shown
        # Enter goes to the step of a line.
        await seat.press("tab", "g", *["j"] * 6, "enter")
        assert (seat.place.checkpoint_ns, seat.place.checkpoint_id) == shown.places[6]
        # A step of a side branch has another timeline, drawn from what was read.
        lines = enumerate(seat.picture.lines)
        seat.tree.cursor = next(at for at, one in lines if "tip" in one.text)
        await seat.rest()
        assert signed(seat).split()[2] == "book"
        assert rows.document is not shown
        assert read.call_count == 1


# Comparing two checkpoints: by the tab, side by side, and by the command line


@pytest.mark.screen(size=(200, 40))
async def test_steps_are_named_alike_in_both_diffs_and_changes_are_a_key_away(seat: Seat) -> None:
    inspector = seat.main.inspector
    await seat.press("enter")
    assert str(inspector.border_title) == "step 12 · reply · f169"
    await seat.press("k", "k", "m", "2")
    assert str(inspector.border_title) == "step 8 · input · d8ee"
    await seat.press("escape", "G")
    assert str(inspector.border_title) == "step 8 · input · d8ee → step 12 · reply · f169"
    assert seat.sees("--- step 8 · input · d8ee", "+++ step 12 · reply · f169")
    await seat.press("d")
    left, right = seat.lines[1].split("│")
    assert left.split() == ["step", "8", "·", "input", "·", "d8ee"]
    assert right.split() == ["step", "12", "·", "reply", "·", "f169"]
    assert seat.sees("Diff of trip-to-kyoto", "itinerary")
    await seat.press("escape", "2")
    printed = ckpt(*shlex.split(seat.main.command_lines()[0])[1:], "-o", "table").out.splitlines()
    assert printed[0].endswith("step 8")
    assert printed[1].endswith("step 12")
    # On the mark, the base is the parent.
    await seat.press("escape", "k", "k")
    assert seat.sees("--- step 7", "+++ step 8 · input · d8ee")
    await seat.press("G")
    # Only the bytes are about the full id.
    await seat.press("9")
    assert str(inspector.border_title) == "step 12 · reply · f169"
    assert seat.place.checkpoint_id in seat.text
    (seat.tree.cursor,) = seat.picture.inner
    await seat.press("escape", "enter", "2")
    assert seat.place.checkpoint_ns
    assert seat.sees("--- step 8 · input · d8ee", "+++ planner > step ")
    # The command compares inside one namespace.
    assert not any(" diff " in one for one in seat.main.command_lines())
    await seat.press("1")
    assert str(inspector.border_title).startswith("planner > step ")
    await seat.press("escape", "escape", "G", "m", "g", "d")
    await changes_are_a_key_away(seat)


async def changes_are_a_key_away(seat: Seat) -> None:
    """Side by side, and then in the tab."""
    await seat.see("right_square_bracket", "change 1 of 8", "- Booking")
    await seat.press(*["right_square_bracket"] * 7)
    assert seat.sees("change 8 of 8", "offers")
    # There is no change after the last one.
    await seat.see("right_square_bracket left_square_bracket", "change 7 of 8", "messages")
    await seat.press("escape", "2", "escape")
    document = seat.document
    changes = document.document.changes
    assert len(changes) > 2
    for at in changes:
        *_, (_, style) = document.lines[at].spans
        if style in {"added", "removed"}:
            # The tint goes to the end of the line.
            assert len(document.lines[at].text) >= document.width
    # The tree has the focus.
    await seat.press("n")
    assert document.cursor == changes[0]
    await seat.press("n", "n", "N")
    assert document.cursor == changes[1]
    assert str(seat.main.inspector.border_title).endswith(f": change 2 of {len(changes)}")
    path = document.path
    await seat.press("escape", "k")
    assert document.path == path
    # A search in the pane takes the keys.
    await seat.press("2")
    await seat.search("step")
    await seat.press("n")
    assert document.cursor < 2


async def test_long_lists_are_compared_by_items_and_texts_by_words(tmp_path: Path) -> None:
    long = " ".join(["word"] * 15)
    items = [{"n": n, "m": n} for n in range(3000)]
    notes = (
        "Arrive on Monday at noon, and stay for two nights at the Kanra hotel.",
        "Arrive on Wednesday at noon, and stay for two nights at the Gracery hotel.",
    )
    before, after = ({"note": one} for one in notes)
    store = stored(tmp_path / "agent.db", {"items": items, **before}, {"items": [long], **after})
    async with sitting(store, size=(160, 30)) as seat:
        await seat.press("enter", "d")
        beside = list(seat.app.screen.query_one(SidesRows).lines)
        assert [one.text.rstrip() for one in beside][:3] == [
            *("items", "… 3000 equal items", f"+ - {long}")
        ]
        await seat.press("escape", "2")
        for lines in (beside, seat.document.lines):
            spans = [one for line in lines for one in line.spans]
            assert [text for text, style in spans if style == "removed-part"] == ["Monday", "Kanra"]
            added = [text for text, style in spans if style == "added-part"]
            assert added == ["Wednesday", "Gracery"]


# The findings of a thread: the tab, the marks in the tree, and the way there


KYOTO = "trip-to-kyoto"
CHILD, GONE, _NEXT, DAMAGED, *_OLDER = ids_of(SAMPLE, KYOTO)


def execute(store: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(store)) as file, file:
        file.execute(statement, values)


@pytest.fixture
def broken(sample: Path) -> Path:
    """A checkpoint was removed and not its writes."""
    execute(sample, "DELETE FROM checkpoints WHERE checkpoint_id = ?", GONE)
    return sample


def marked(seat: Seat) -> list[str]:
    rows = seat.tree
    shown = [rows.line_at(at, 200).text for at in range(rows.count())]
    # The column before it is for the marked checkpoint.
    return [one for one in shown if one[1:2] == "!"]


def go_to(seat: Seat, code: str) -> None:
    """Set the cursor on a finding."""
    rows = seat.document
    rows.cursor = next(at for at, one in rows.document.findings.items() if one.code == code)


@pytest.mark.screen(on="broken", writes=True)
async def test_findings_are_listed_lead_on_and_are_checked_anew(seat: Seat, sample: Path) -> None:
    # The thread is checked while its tree is shown.
    await seat.until(lambda: marked(seat))
    assert "checked 1 thread" not in seat.read
    await seat.see("7", "done, 2 findings")
    text = seat.read
    assert "checked 1 thread" in text
    assert len(marked(seat)) == 1
    assert seat.tree.found >= {("", CHILD)}
    assert seat.main.command_lines()[0] == f"ckpt -s {sample} doctor {KYOTO}"
    seat.document.cursor = seat.document.count()
    same = ckpt("-s", sample, "doctor", KYOTO, "-o", "json").json["findings"]
    fix = next(one["fix"] for one in same if one["code"] == "write-orphaned")
    # A long path may break the line.
    assert fix in " ".join(text.split())
    assert fix in seat.main.command_lines()
    listed = seat.document.document.findings.values()
    assert [one.code for one in listed] == [one["code"] for one in same]
    go_to(seat, "write-orphaned")
    await seat.press("P")
    assert "no repair mends this finding" in seat.said
    await seat.press("j", "enter")
    assert "this checkpoint is not stored" in seat.said
    go_to(seat, "parent-missing")
    await seat.press("j", "enter")
    assert seat.tree.has_focus
    assert (seat.place.checkpoint_id, seat.main.inspector.tab) == (CHILD, "findings")
    # It is checked again when it is refreshed or has changed.
    execute(sample, "DELETE FROM writes WHERE checkpoint_id = ?", GONE)
    await seat.press("1", "7")
    assert "write-orphaned" in seat.read
    execute(sample, "UPDATE checkpoints SET checkpoint = x'c1' WHERE checkpoint_id = ?", DAMAGED)
    await seat.press("r")
    assert "write-orphaned" not in seat.read
    assert "info parent-missing" in seat.read
    # Every value is checked on request.
    assert "v checks every value" in seat.read
    assert "body-unreadable" not in seat.read
    await seat.press("v")
    assert "error body-unreadable" in seat.read
    assert "v checks" not in seat.read
    assert ("", DAMAGED) in seat.tree.found
    assert seat.main.command_lines()[0] == f"ckpt -s {sample} doctor --deep {KYOTO}"
    execute(sample, "DELETE FROM checkpoints WHERE checkpoint_id = ?", CHILD)
    seat.main.threads_pane.load()
    await seat.until(lambda: "step-uncommitted" in seat.read)


async def test_a_finding_is_repaired_by_its_plan(tmp_path: Path) -> None:
    store, after_grace = tmp_path / "store.db", datetime.now(UTC) + timedelta(hours=1)
    with closing(sqlite3.connect(store, check_same_thread=False)) as file:
        two = Two(SqliteSaver(file))
        # An answer that the next question would get.
        two.make_stale()
        async with sitting(store, writes=True, now=after_grace) as seat:
            await seat.press("enter", "7")
            assert len(marked(seat)) == 1
            go_to(seat, "resume-stale")
            await seat.see("P", "Drop this answer?")
            await seat.see("y", "press U to undo")
            await seat.until(lambda: not marked(seat))
            await seat.press("7")
            assert "no findings" in seat.read
        assert asked(two.graph.invoke(None, CONFIG)) == ["second?"]


async def test_a_store_that_may_charge_for_reads_is_checked_on_request_and_no_other_thread(
    broken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = Mock(wraps=examine.check_thread)
    monkeypatch.setattr(thread_tabs, "check_thread", check)
    monkeypatch.setattr(SqliteStore, "lists_by_scan", True)
    # What a profile ignores is left out.
    ignoring = partial(CheckRules, ignored=frozenset({"write-orphaned"}))
    monkeypatch.setattr(context, "CheckRules", ignoring)
    async with sitting(broken) as seat:
        assert "findings" not in seat.main.inspector.delays.names
        assert marked(seat) == []
        await seat.press("7", "1", "7")
        assert len(marked(seat)) == 1
        assert "write-orphaned" not in seat.read
        assert "parent-missing" in seat.read
    assert [one.args[0].thread_id for one in check.call_args_list] == [KYOTO]


async def test_what_cannot_be_checked_says_why(seat: Seat, monkeypatch: pytest.MonkeyPatch) -> None:
    await seat.press("z")
    for function, error, said in (
        ("check_thread", Unreadable("\x1b[31mencrypted"), "not checked completely: \\x1b[31menc"),
        ("read_findings", CkptError("it cannot be checked"), "it cannot be checked"),
    ):
        monkeypatch.setattr(thread_tabs, function, Mock(side_effect=error))
        await seat.press("7", "r")
        assert said in seat.read


# The values of a state: they fold, are searched, copied and pinned, and show their changes


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


async def test_what_the_step_changed_is_marked_and_a_value_is_folded(seat: Seat) -> None:
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
    store = stored(tmp_path / "agent.db", {"items": ["x" * 300 + " " + "y" * 29_700]})
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
    assert (hits.nodes, hits.ended) == ([], "a[19]")


def test_lines_are_drawn_when_asked_for_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_what_a_diff_finds_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    with Opening(parse_url(str(SAMPLE))).open(lambda _: None) as store:
        reader = ThreadReader(store, KYOTO)
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
