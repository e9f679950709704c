"""Threads with many checkpoints: what is read for the tree, and how often."""

import shutil
from collections.abc import Collection
from datetime import UTC
from operator import add
from pathlib import Path
from threading import Event
from typing import Annotated, Any, TypedDict
from unittest.mock import Mock

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from ckpt_backends.testing.official import config_of
from ckpt_backends.testing.screen import NOW, Seat, sitting
from ckpt_backends.url import parse_url
from ckpt_cli.core.tree import StepDetails
from ckpt_cli.queries import tree
from ckpt_cli.queries.thread_operations import ThreadOperations
from ckpt_cli.queries.tree import TreeKeys, TreeReader, TreeShape
from ckpt_cli.reading.store import Opening
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.text import Ui
from ckpt_cli.tui.panes.tree import GrowingTree, draw_tree
from ckpt_cli.tui.tabs.content import KeptReader

pytestmark = pytest.mark.engines


_TURNS = 200


class State(TypedDict, total=False):
    items: Annotated[list[int], add]


def _long(saver: Any, turns: int) -> Any:
    graph = StateGraph(State)
    graph.add_node("plan", lambda _: {"items": [1]})
    graph.add_node("act", lambda _: {})
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "act")
    graph.add_conditional_edges(
        "act", lambda state: END if len(state["items"]) % turns == 0 else "plan"
    )
    return graph.compile(checkpointer=saver)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("long") / "agent.db"
    with SqliteSaver.from_conn_string(str(store)) as saver:
        saver.conn.execute("PRAGMA synchronous = OFF")
        config = {**config_of("long"), "recursion_limit": 2 * _TURNS + 2}
        _long(saver, _TURNS).invoke({"items": []}, config)
    return store


@pytest.fixture
def store(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # A thread of this length counts as long.
    monkeypatch.setattr(tree, "_SMALL", _TURNS)
    return Path(shutil.copy(written, tmp_path / "agent.db"))


@pytest.fixture
def bodies(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the checkpoints whose bodies are read for the tree."""
    found: list[str] = []
    moments = ThreadReader.moments

    def noted(
        self: ThreadReader, ns: str, ids: Collection[str] | None = None, **options: Any
    ) -> Any:
        assert ids is not None
        if ids:
            found.extend(ids)
        return moments(self, ns, ids, **options)

    monkeypatch.setattr(ThreadReader, "moments", noted)
    return found


async def test_unfolding_reads_only_the_rows_that_are_seen(seat: Seat, bodies: list[str]) -> None:
    rows = seat.tree
    await seat.press("enter")
    bodies.clear()
    await seat.press("o")
    assert len(rows.lines) == 2 * _TURNS + 2
    assert 0 < len(set(bodies)) < 100
    bodies.clear()
    await seat.press("g")
    assert 0 < len(set(bodies)) < 100
    bodies.clear()
    await seat.press("G", "g", "r")
    # Of the tree nothing is read again but the head.
    assert len(set(bodies)) < 10


async def test_rows_are_read_without_a_look_at_all_keys(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Mock(wraps=tree.read_keys)
    async with sitting(store) as seat:
        await seat.press("enter", "o")
        monkeypatch.setattr(tree, "read_keys", looks)
        rows = seat.tree
        for key in ("g", "pagedown", "pagedown"):
            await seat.press(key)
            assert rows.picture is not None
            assert rows.picture.tree is seat.main.tree_pane.view.tree
            assert rows.picture.tree.unread.isdisjoint(rows.picture.keys_near(rows.seen))
        assert not looks.called
        assert any("items +1" in rows.lines[at].text for at in rows.seen)


async def test_rows_that_are_not_read_look_as_those_that_are(store: Path) -> None:
    opening = Opening(parse_url(str(store)))
    async with sitting(store, now=NOW) as seat:
        await seat.press("enter", "o")
        picture = seat.picture
        assert len(picture.tree.unread) > _TURNS
        with opening.open(lambda _: None) as opened:
            reader, operations = ThreadReader(opened, "long"), ThreadOperations(opening, "long")
            whole = TreeReader(reader, operations, str).read(TreeShape(unfold=True))
        # Of these rows it is only not known what they changed.
        details = {key: one._replace(changes=()) for key, one in whole.details.items()}
        whole = whole._replace(details=details, steps=picture.tree.steps)
        drawn = draw_tree(whole, Ui(NOW, UTC, seat.tree.room))
        assert picture.keys == drawn.keys
        for at, key in enumerate(picture.keys):
            if key in picture.tree.unread:
                assert picture.lines[at] == drawn.lines[at]


async def test_a_running_read_is_not_restarted(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, later, begun = Event(), Event(), []
    read = GrowingTree.read

    def slow(*arguments: Any, **options: Any) -> Any:
        begun.append(options["asked"])
        (first if len(begun) == 1 else later).wait(60)
        return read(*arguments, **options)

    async with sitting(store) as seat:
        await seat.press("enter")
        monkeypatch.setattr(GrowingTree, "read", slow)
        await seat.press_at_once("o")
        await seat.until(lambda: begun)
        for _ in range(5):
            await seat.press_at_once("r")
            await seat.until(lambda: not seat.app.context.threads.waiting)
        assert len(begun) == 1
        assert seat.app.context.tree.waiting == 1
        first.set()
        # What was read first is shown, and not thrown away for a later read.
        await seat.until(lambda: len(seat.tree.lines) > _TURNS)
        later.set()
        await seat.rest()
        # Once more for all that was asked meanwhile, and once for the rows that are seen then.
        assert len(begun) <= 3


async def test_a_thread_that_grows_stays_unfolded_at_its_place(
    seat: Seat, store: Path, bodies: list[str]
) -> None:
    rows = seat.tree
    await seat.press("enter", "o", "g", "j", "j")
    place = seat.place
    with SqliteSaver.from_conn_string(str(store)) as saver:
        _long(saver, 1).invoke({"items": []}, config_of("long"))
    bodies.clear()
    await seat.press("r")
    assert len(rows.lines) == 2 * _TURNS + 6
    assert seat.place == place
    assert len(set(bodies)) < 20


def test_details_are_read_again_if_writes_were_added(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def read(_: object, __: object, ___: object, ____: object, keys: Any, _____: object) -> Any:
        asked.append(list(keys))
        return {key: StepDetails(problem="damaged" if key == ("", "c") else None) for key in keys}

    monkeypatch.setattr(tree, "read_details", read)
    keys = [("", one) for one in "abc"]
    seals = dict.fromkeys(keys, 1)
    more = {**seals, keys[0]: 2}
    opening = Opening(parse_url(str(store)))
    with opening.open(lambda _: None) as opened:
        reader, operations = ThreadReader(opened, "long"), ThreadOperations(opening, "long")
        trees = TreeReader(reader, operations, str)
        for stored, tips in ((seals, ()), (more, ()), (more, (keys[1],))):
            assert trees.details(TreeKeys({}, {}, tips, stored), keys, ()).keys() == set(keys)
    assert asked == [keys, [keys[0], keys[2]], [keys[1], keys[2]]]


def test_a_kept_reader_of_a_grown_thread_serves_older_checkpoints_only(store: Path) -> None:
    kept = KeptReader()
    with Opening(parse_url(str(store))).open(lambda _: None) as opened:
        first = kept.of(opened, "long")
        head, older = (one.key for one in first.index("")[:2])
        with SqliteSaver.from_conn_string(str(store)) as saver:
            _long(saver, 1).invoke({"items": []}, config_of("long"))
        opened.refresh()
        assert kept.of(opened, "long", older) is first
        second = kept.of(opened, "long", head)
        assert second is not first
        newest = second.index("")[0].key
        assert newest.checkpoint_id > head.checkpoint_id
        assert kept.of(opened, "long", newest) is second
