"""Changing a store from the screen: the plan is shown, and the official graph goes on from it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.postgres import PostgresSaver

from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.official import ScenarioThread, config_of, drive
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.tui.writing import Writing
from tests.kit.command import ckpt, first_now
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.opening import empty_store
from tests.kit.planting.apart import delete, execute, rows, versions
from tests.kit.planting.steps import THREAD, talk

pytestmark = pytest.mark.engines

CHAT, STUCK = "chat", "interrupt-alone"


class Store:
    """A store with a few threads that official graphs can go on with."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.url = harness.url
        self.threads: dict[str, ScenarioThread] = {
            name: drive(harness.kept_saver, SCENARIOS[name]) for name in (CHAT, STUCK)
        }

    def graph(self, name: str) -> Any:
        return self.threads[name].graph(self.harness.kept_saver)

    def state(self, name: str) -> Any:
        """What the official library says of a thread's head."""
        return self.graph(name).get_state(config_of(name))

    def history(self, name: str) -> list[str]:
        """Its checkpoints as the official saver lists them, newest first."""
        found = self.harness.kept_saver.list(config_of(name))
        return [one.checkpoint["id"] for one in found]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    kind = SqliteHarness if request.param == "sqlite" else PostgresHarness
    with empty_store(kind, request, tmp_path) as harness:
        yield Store(harness)


def recorded() -> Any:
    """The recorded operations, the newest first."""
    return ckpt("ops", "list", "-o", "json").json


async def go(seat: Seat, name: str) -> None:
    """To the tree of a thread."""
    await seat.press("slash")
    await seat.type(name)
    await seat.press("enter", "enter")
    assert seat.main.tree_pane.view.thread_id == name


@pytest.mark.parametrize("store", first_now(["sqlite", "postgres"]), indirect=True)
def test_a_thread_is_rolled_back_resumed_and_the_change_undone(store: Store) -> None:
    before = store.history(STUCK)

    async def work(seat: Seat) -> None:
        await go(seat, STUCK)
        assert seat.sees("WRITE")
        assert seat.main.place is not None
        assert seat.main.place.checkpoint_id == before[0]
        await seat.press("k", "B")
        assert seat.sees("Plan", "Roll back this thread?", "back to")
        await seat.press("n")
        assert store.history(STUCK) == before
        await seat.press("B", "y")
        await seat.until(lambda: ": head is now " in seat.said)
        await seat.rest()
        head, *rest = store.history(STUCK)
        assert rest == before
        assert seat.main.place.checkpoint_id == head
        assert store.state(STUCK).config["configurable"]["checkpoint_id"] == head
        # The official graph goes on from it, in a branch that comes up on the screen.
        found = store.graph(STUCK).invoke(None, config_of(STUCK))
        assert "__interrupt__" in found
        await seat.press("r")
        assert seat.sees("2 branches", "interrupted")
        assert set(before) < set(store.history(STUCK))
        # The undo rolls back, because the graph went on.
        await seat.press("U", "y")
        await seat.until(lambda: f"undid the last change of {STUCK}: head is now " in seat.said)

    sit(store.url, work, writes=True)
    undo, rollback = recorded()
    assert [(one["action"], one["threads"]) for one in (undo, rollback)] == [
        ("undo", [STUCK]),
        ("rollback", [STUCK]),
    ]
    assert rollback["undone_by"] == undo["op"]


@pytest.mark.engines
def test_undo_takes_a_rollback_back(store: Store) -> None:
    before = store.history(CHAT)

    async def work(seat: Seat) -> None:
        await go(seat, CHAT)
        await seat.press("k", "k", "B", "y")
        await seat.until(lambda: ": head is now " in seat.said)
        assert len(store.history(CHAT)) == len(before) + 1
        await seat.press("U")
        assert seat.sees("Undo this?", "remove")
        await seat.press("y")
        await seat.until(lambda: f"undid the last change of {CHAT}: head is now " in seat.said)
        assert store.history(CHAT) == before
        await seat.press("U")
        await seat.until(lambda: seat.sees("nothing") or seat.sees("no "))
        assert store.history(CHAT) == before

    sit(store.url, work, writes=True)
    undo, rollback = recorded()
    assert (undo["action"], rollback["undone_by"]) == ("undo", undo["op"])


def test_undo_takes_an_import_back(store: Store, tmp_path: Path) -> None:
    before = store.history(CHAT)
    archive = str(tmp_path / "archive")
    purge = ["purge", "--match", CHAT, "--keep-last", "2", "--archive", archive, "--yes"]
    assert ckpt("-s", store.url, *purge).code == 0
    pruned = store.history(CHAT)
    assert ckpt("-s", store.url, "import", archive, "--yes").code == 0
    assert store.history(CHAT) == before

    async def work(seat: Seat) -> None:
        await go(seat, CHAT)
        await seat.press("U")
        assert seat.sees("Undo this?", "checkpoints")
        await seat.press("y")
        await seat.until(lambda: "undid import" in seat.said)
        assert store.history(CHAT) == pruned
        await seat.press("U", "y")
        await seat.until(lambda: "undid purge" in seat.said)

    sit(store.url, work, writes=True)
    assert store.history(CHAT) == before
    assert [one["action"] for one in recorded()] == ["undo", "undo", "import", "purge"]


def test_undo_takes_restored_values_back(postgres_url: str) -> None:
    with PostgresSaver.from_conn_string(postgres_url) as saver:
        saver.setup()
        talk(saver)
    third, fourth = versions(postgres_url, "log")[3:5]
    delete(postgres_url, "log", third)
    damage = "UPDATE checkpoint_blobs SET blob = %s WHERE channel = 'log' AND version = %s"
    execute(postgres_url, damage, b"\xdd\xff", fourth)
    damaged = rows(postgres_url)

    async def work(seat: Seat) -> None:
        await go(seat, THREAD)
        await seat.press("P")
        assert seat.sees("Restore these values?", "fills in a missing value")
        await seat.press("y")
        await seat.until(lambda: "press U to undo" in seat.said)
        assert rows(postgres_url) != damaged
        await seat.press("U")
        assert seat.sees("Undo this?", "removes  log of step", "the unreadable value is stored")
        await seat.press("y")
        await seat.until(lambda: "undid repair" in seat.said)
        assert rows(postgres_url) == damaged

    sit(postgres_url, work, writes=True)
    assert [one["action"] for one in recorded()] == ["undo", "repair"]
    assert ckpt("-s", postgres_url, "redo", "--yes").code == 0
    assert ckpt("-s", postgres_url, "undo", THREAD, "--yes").code == 0
    assert rows(postgres_url) == damaged


def test_a_fork_with_a_value_edited_in_the_editor(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(seat: Seat) -> None:
        screen: Any = seat.main
        seen: list[str] = []

        def edit(text: str, heading: str) -> str:
            seen.append(text)
            return '["edited"' if len(seen) == 1 else json.dumps(["edited"])

        monkeypatch.setattr(screen.changes, "edited", edit)
        await go(seat, STUCK)
        await seat.press("F")
        assert seat.sees("Fork", "New thread", "Channel to edit", "items")
        await seat.type("forked-one")
        await seat.press("tab")
        await seat.type("nonsense")
        await seat.press("enter")
        assert seat.sees("no channel 'nonsense'")
        await seat.press(*["backspace"] * len("nonsense"))
        await seat.type("items")
        await seat.press("enter")
        await seat.until(lambda: seat.sees("Fork this checkpoint?"))
        assert isinstance(json.loads(seen[0]), list)
        # What is no JSON comes again as it was left.
        assert seen[1] == '["edited"'
        assert seat.sees("edited")
        # Each change is shown once.
        assert seat.text.count('"edited"') == 1
        await seat.press("y")
        await seat.until(lambda: f"forked {STUCK} to forked-one: " in seat.said)
        await seat.rest()
        assert seat.main.tree_pane.view.thread_id == "forked-one"
        # What was said holds: here it can be undone, and the original is untouched by that.
        await seat.press("U")
        assert seat.sees("Undo this?", "forked-one")
        await seat.press("n")

    sit(store.url, work, writes=True)
    found = store.graph(STUCK).get_state(config_of("forked-one"))
    assert found.values["items"] == ["edited"]
    assert store.state(STUCK).values["items"] != ["edited"]


def test_a_refused_fork_keeps_its_form(store: Store) -> None:
    async def work(seat: Seat) -> None:
        await go(seat, STUCK)
        await seat.press("F")
        await seat.type(CHAT)
        await seat.press("enter")
        assert seat.sees("Fork", f"thread '{CHAT}' already exists", "hint:"), seat.text
        # What is typed goes on in the same field, and does not roll back or quit.
        await seat.type("-Bq")
        await seat.press("tab")
        await seat.type("no")
        await seat.press("enter")
        assert seat.sees("Fork", f"{CHAT}-Bq", "no channel 'no'"), seat.text
        await seat.press("backspace", "backspace", "enter")
        await seat.until(lambda: seat.sees("Fork this checkpoint?", f"{CHAT}-Bq"))
        await seat.press("n")
        assert seat.app.screen is seat.main

    sit(store.url, work, writes=True)


def test_what_cannot_be_done_is_said(store: Store) -> None:
    before = store.history(CHAT)

    async def work(seat: Seat) -> None:
        await go(seat, CHAT)
        await seat.press("P")
        await seat.until(
            lambda: seat.sees("nothing is missing") or seat.sees("stores values inside")
        )
        await seat.press("U")
        await seat.rest()
        assert seat.app.screen is seat.main
        await seat.press("F", "escape")
        assert seat.app.screen is seat.main

    sit(store.url, work, writes=True)
    assert store.history(CHAT) == before


def test_a_thread_that_moved_on_since_the_plan_is_left_alone(store: Store) -> None:
    async def work(seat: Seat) -> None:
        await go(seat, CHAT)
        await seat.press("k", "B")
        assert seat.sees("Roll back this thread?")
        store.graph(CHAT).update_state(config_of(CHAT), {})
        after = store.history(CHAT)
        await seat.press("y")
        await seat.until(lambda: seat.sees("changed"))
        assert store.history(CHAT) == after

    sit(store.url, work, writes=True)


def test_the_same_plan_as_the_command(store: Store) -> None:
    async def work(seat: Seat) -> None:
        await go(seat, CHAT)
        await seat.press("k", "k", "B")
        place = seat.main.place
        assert place is not None
        told = ckpt("-s", store.url, "rollback", CHAT, place.checkpoint_id, "--dry-run").out
        for one in told.splitlines():
            # The new checkpoint's id differs in each plan; here a key undoes it, not a command.
            if one.strip() and not one.startswith(("new head", "undo")):
                assert one.strip()[:60] in seat.text

    sit(store.url, work, writes=True, size=(140, 50))


def test_a_thread_is_deleted_and_its_neighbour_stays(store: Store) -> None:
    before = store.history(CHAT)

    async def work(seat: Seat) -> None:
        await go(seat, STUCK)
        await seat.press("D")
        assert seat.sees("Remove 1 thread (", "This cannot be undone.", STUCK, "selected")
        await seat.press("n")
        assert store.history(STUCK)
        await seat.press("D", "y")
        await seat.until(lambda: seat.sees("Removed", "1 thread"))
        await seat.rest()
        assert STUCK not in {one.thread_id for one in seat.main.threads_pane.listing.threads}

    sit(store.url, work, writes=True)
    assert [(one["action"], one["threads"]) for one in recorded()] == [("threads delete", [STUCK])]
    assert store.history(STUCK) == []
    assert store.history(CHAT) == before


@pytest.mark.engines
def test_a_purge_keeps_what_waits_and_prunes_inside(store: Store) -> None:
    waiting, chat = store.history(STUCK), store.history(CHAT)

    async def work(seat: Seat) -> None:
        await seat.press("X", "enter")
        await seat.until(lambda: seat.sees("nothing selected"))
        await seat.type("*alone")
        await seat.press("enter")
        await seat.until(lambda: seat.sees("nothing to do", STUCK))
        assert store.history(STUCK) == waiting
        await seat.press(*["backspace"] * len("*alone"), "tab", "tab")
        await seat.type("2")
        await seat.press("enter")
        await seat.until(lambda: seat.sees("Prune 2 threads (", "prune"))
        await seat.press("y")
        await seat.until(lambda: len(store.history(CHAT)) < len(chat))

    sit(store.url, work, writes=True)
    assert len(store.history(CHAT)) < len(chat)
    assert store.history(CHAT)[0] == chat[0]
    assert store.history(STUCK)[0] == waiting[0]


def test_another_look_does_not_end_the_wait_for_a_change(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        main = seat.main
        assert isinstance(main.changes, Writing)
        waiting = asyncio.create_task(main.changes.listed_anew())
        await asyncio.sleep(0)
        main.threads_pane.load()
        await waiting
        assert len(main.threads_pane.listing.threads) == 8

    sit(sample, look, writes=True)
