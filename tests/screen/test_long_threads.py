"""Threads with many checkpoints: what is read for the tree, and how often."""

import shutil
from collections.abc import Collection
from datetime import UTC
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import Mock

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

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
from tests.screen.stores import long_graph, long_thread

pytestmark = pytest.mark.engines


_TURNS = 200


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("long") / "agent.db"
    long_thread(store, _TURNS)
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


def rows_that_are_not_read_look_as_those_that_are(seat: Seat, store: Path) -> None:
    picture, opening = seat.picture, Opening(parse_url(str(store)))
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


@pytest.mark.screen(now=NOW)
async def test_unfolding_reads_only_the_rows_that_are_seen_and_stays_when_the_thread_grows(
    seat: Seat, store: Path, bodies: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = seat.tree
    await seat.press("enter")
    # A thread that one stays at is checked once: what that reads is not counted.
    await seat.until(lambda: seat.main.inspector.checked("long"))
    bodies.clear()
    await seat.press("o")
    # The first line is the day.
    assert len(rows.lines) == 2 * _TURNS + 3
    assert 0 < len(set(bodies)) < 100
    rows_that_are_not_read_look_as_those_that_are(seat, store)
    bodies.clear()
    looks = Mock(wraps=tree.read_keys)
    with monkeypatch.context() as patched:
        patched.setattr(tree, "read_keys", looks)
        for key in ("g", "pagedown", "pagedown"):
            await seat.press(key)
            read = seat.picture.tree
            assert read is seat.main.tree_pane.view.tree
            assert read.unread.isdisjoint(seat.picture.keys_near(rows.seen))
    # Rows are read without a look at all keys.
    assert not looks.called
    assert any("items +1" in rows.lines[at].text for at in rows.seen)
    assert 0 < len(set(bodies)) < 100
    bodies.clear()
    await seat.press("G", "g", "j", "j", "r")
    # Of the tree nothing is read again but the head.
    assert len(set(bodies)) < 10
    place = seat.place
    with SqliteSaver.from_conn_string(str(store)) as saver:
        long_graph(saver, 1).invoke({"items": []}, config_of("long"))
    bodies.clear()
    await seat.press("r")
    assert len(rows.lines) == 2 * _TURNS + 7
    assert seat.place == place
    assert len(set(bodies)) < 20


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


def test_details_are_read_again_if_writes_were_added(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [("", one) for one in "abc"]

    def details(*asked: Any) -> Any:
        return {key: StepDetails(problem="damaged" if key == keys[2] else None) for key in asked[4]}

    read = Mock(side_effect=details)
    monkeypatch.setattr(tree, "read_details", read)
    seals = dict.fromkeys(keys, 1)
    more = {**seals, keys[0]: 2}
    opening = Opening(parse_url(str(store)))
    with opening.open(lambda _: None) as opened:
        reader, operations = ThreadReader(opened, "long"), ThreadOperations(opening, "long")
        trees = TreeReader(reader, operations, str)
        for stored, tips in ((seals, ()), (more, ()), (more, (keys[1],))):
            assert trees.details(TreeKeys({}, {}, tips, stored), keys, ()).keys() == set(keys)
    asked = [list(one.args[4]) for one in read.call_args_list]
    assert asked == [keys, [keys[0], keys[2]], [keys[1], keys[2]]]


def test_a_kept_reader_of_a_grown_thread_serves_older_checkpoints_only(store: Path) -> None:
    kept = KeptReader()
    with Opening(parse_url(str(store))).open(lambda _: None) as opened:
        first = kept.of(opened, "long")
        head, older = (one.key for one in first.index("")[:2])
        with SqliteSaver.from_conn_string(str(store)) as saver:
            long_graph(saver, 1).invoke({"items": []}, config_of("long"))
        opened.refresh()
        assert kept.of(opened, "long", older) is first
        second = kept.of(opened, "long", head)
        assert second is not first
        newest = second.index("")[0].key
        assert newest.checkpoint_id > head.checkpoint_id
        assert kept.of(opened, "long", newest) is second
