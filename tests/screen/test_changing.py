"""Changing a store: the plan is shown, and the official graph goes on. Not without `--write`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.official import ScenarioThread, config_of, drive
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.testing.screen import Seat, sitting
from ckpt_cli.tui.screens.dialogs import PlanScreen
from ckpt_cli.tui.writing import ForkForm, ForkWish, Refuse
from tests.kit.command import ckpt, first_now
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.opening import empty_store

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


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.nightly)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    kind = SqliteHarness if request.param == "sqlite" else PostgresHarness
    with empty_store(kind, request, tmp_path) as harness:
        yield Store(harness)


def recorded() -> Any:
    """The recorded operations, the newest first."""
    return ckpt("ops", "list", "-o", "json").json


async def go(seat: Seat, name: str) -> None:
    """To the tree of a thread."""
    await seat.search(name)
    await seat.press("enter")
    assert seat.main.tree_pane.view.thread_id == name


@pytest.mark.parametrize("store", first_now(["sqlite", "postgres"]), indirect=True)
async def test_a_thread_is_rolled_back_resumed_and_the_change_undone(store: Store) -> None:
    before = store.history(STUCK)
    async with sitting(store.url, writes=True) as seat:
        await go(seat, STUCK)
        assert seat.sees("WRITE")
        assert seat.place.checkpoint_id == before[0]
        await seat.see("k B", "Plan", "Roll back this thread?", "back to")
        await seat.press("n")
        assert store.history(STUCK) == before
        await seat.hear("B y", ": head is now ")
        await seat.rest()
        head, *rest = store.history(STUCK)
        assert rest == before
        assert seat.place.checkpoint_id == head
        assert store.state(STUCK).config["configurable"]["checkpoint_id"] == head
        # The official graph goes on from it, in a branch that comes up on the screen.
        found = store.graph(STUCK).invoke(None, config_of(STUCK))
        assert "__interrupt__" in found
        await seat.see("r", "2 branches", "interrupted")
        assert set(before) < set(store.history(STUCK))
        # The undo rolls back, because the graph went on.
        await seat.hear("U y", f"undid the last change of {STUCK}: head is now ")
    undo, rollback = recorded()
    assert [(one["action"], one["threads"]) for one in (undo, rollback)] == [
        ("undo", [STUCK]),
        ("rollback", [STUCK]),
    ]
    assert rollback["undone_by"] == undo["op"]


async def test_undo_takes_a_rollback_back(store: Store) -> None:
    before = store.history(CHAT)
    async with sitting(store.url, writes=True) as seat:
        await go(seat, CHAT)
        await seat.hear("k k B y", ": head is now ")
        assert len(store.history(CHAT)) == len(before) + 1
        await seat.see("U", "Undo this?", "remove")
        await seat.hear("y", f"undid the last change of {CHAT}: head is now ")
        assert store.history(CHAT) == before
        await seat.press("U")
        await seat.until(lambda: seat.sees("nothing") or seat.sees("no "))
        assert store.history(CHAT) == before
    undo, rollback = recorded()
    assert (undo["action"], rollback["undone_by"]) == ("undo", undo["op"])


async def test_a_fork_with_a_value_edited_in_the_editor(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sitting(store.url, writes=True) as seat:
        screen: Any = seat.main
        seen: list[str] = []

        def edit(text: str, heading: str) -> str:
            seen.append(text)
            return '["edited"' if len(seen) == 1 else json.dumps(["edited"])

        monkeypatch.setattr(screen.changes, "edited", edit)
        await go(seat, STUCK)
        await seat.see("F", "Fork", "New thread", "Channel to edit", "items")
        await seat.type("forked-one")
        await seat.fill("tab", "nonsense")
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
        await seat.hear("y", f"forked {STUCK} to forked-one: ")
        await seat.rest()
        assert seat.main.tree_pane.view.thread_id == "forked-one"
        # What was said holds: here it can be undone, and the original is untouched by that.
        await seat.see("U", "Undo this?", "forked-one")
        await seat.press("n")
    found = store.graph(STUCK).get_state(config_of("forked-one"))
    assert found.values["items"] == ["edited"]
    assert store.state(STUCK).values["items"] != ["edited"]


async def test_the_beginning_of_two_channels_chooses_none(sample: Path) -> None:
    wishes: list[ForkWish] = []

    async def plan(wish: ForkWish, _: Refuse) -> None:
        wishes.append(wish)

    async with sitting(sample) as seat:
        seat.app.push_screen(ForkForm(["plan", "places"], plan))
        await seat.see("tab", "plan, places")
        await seat.type("pla")
        await seat.press("enter")
        await seat.until(lambda: seat.sees("no channel 'pla'", "use one of plan, places"))
        assert wishes == []
        await seat.type("n")
        await seat.press("enter")
        await seat.until(lambda: bool(wishes))
        assert wishes[0][1] == "plan"


@pytest.mark.screen(writes=True)
async def test_a_refused_fork_keeps_its_form(seat: Seat) -> None:
    await go(seat, STUCK)
    await seat.fill("F", CHAT)
    assert seat.sees("Fork", f"thread '{CHAT}' already exists", "hint:"), seat.text
    # What is typed goes on in the same field, and does not roll back or quit.
    await seat.type("-Bq")
    await seat.fill("tab", "no")
    assert seat.sees("Fork", f"{CHAT}-Bq", "no channel 'no'"), seat.text
    await seat.press("backspace", "backspace", "enter")
    await seat.until(lambda: seat.sees("Fork this checkpoint?", f"{CHAT}-Bq"))
    await seat.press("n")
    assert seat.app.screen is seat.main


async def test_what_cannot_be_done_is_said(store: Store) -> None:
    before = store.history(CHAT)
    async with sitting(store.url, writes=True) as seat:
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
    assert store.history(CHAT) == before


@pytest.mark.screen(writes=True)
async def test_a_thread_that_moved_on_since_the_plan_is_left_alone(
    seat: Seat, store: Store
) -> None:
    await go(seat, CHAT)
    await seat.see("k B", "Roll back this thread?")
    store.graph(CHAT).update_state(config_of(CHAT), {})
    after = store.history(CHAT)
    await seat.press("y")
    await seat.until(lambda: seat.sees("changed"))
    assert store.history(CHAT) == after


@pytest.mark.screen(writes=True, size=(140, 50))
async def test_the_same_plan_as_the_command(seat: Seat, store: Store) -> None:
    await go(seat, CHAT)
    await seat.press("k", "k", "B")
    place = seat.place
    told = ckpt("-s", store.url, "rollback", CHAT, place.checkpoint_id, "--dry-run").out
    for one in told.splitlines():
        # The new checkpoint's id differs in each plan; here a key undoes it, not a command.
        if one.strip() and not one.startswith(("new head", "undo")):
            assert one.strip()[:60] in seat.text


async def test_a_thread_is_deleted_and_its_neighbour_stays(store: Store) -> None:
    before = store.history(CHAT)
    async with sitting(store.url, writes=True) as seat:
        await go(seat, STUCK)
        await seat.see("D", "Remove 1 thread (", "This cannot be undone.", STUCK, "selected")
        await seat.press("n")
        assert store.history(STUCK)
        await seat.press("D", "y")
        await seat.until(lambda: seat.sees("Removed", "1 thread"))
        await seat.rest()
        assert STUCK not in {one.thread_id for one in seat.main.threads_pane.listing.threads}
    assert [(one["action"], one["threads"]) for one in recorded()] == [("threads delete", [STUCK])]
    assert store.history(STUCK) == []
    assert store.history(CHAT) == before


async def test_a_purge_keeps_what_waits_and_prunes_inside(store: Store) -> None:
    waiting, chat = store.history(STUCK), store.history(CHAT)
    async with sitting(store.url, writes=True) as seat:
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
    assert len(store.history(CHAT)) < len(chat)
    assert store.history(CHAT)[0] == chat[0]
    assert store.history(STUCK)[0] == waiting[0]


def chat(saver: SqliteSaver) -> Any:
    """A graph whose state is a list of messages."""

    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"you said {state['messages'][-1].content}", id="a")]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile(checkpointer=saver)


async def test_messages_are_edited_and_a_refused_text_comes_again_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "chat.db"
    with SqliteSaver.from_conn_string(str(store)) as saver:
        chat(saver).invoke({"messages": [HumanMessage("hello", id="h")]}, config_of("talk"))
    async with sitting(store, writes=True) as seat:
        seen: list[tuple[str, str]] = []

        def edit(text: str, heading: str) -> str:
            seen.append((text, heading))
            if len(seen) == 1:
                return text.replace("hello", "goodbye", 1).replace("HumanMessage", "Nobody", 1)
            return text.replace("Nobody", "HumanMessage")

        monkeypatch.setattr(seat.main.changes, "edited", edit)
        await seat.press("enter", "F")
        await seat.type("edited")
        await seat.fill("tab", "messages")
        await seat.until(lambda: isinstance(seat.app.screen, PlanScreen))
        assert seat.sees("goodbye")
        assert [one["content"] for one in json.loads(seen[0][0])] == ["hello", "you said hello"]
        assert "goodbye" in seen[1][0]
        assert "cannot write an object of class" in seen[1][1]
        assert len(seen) == 2
        await seat.press("y")
        await seat.until(lambda: seat.main.tree_pane.view.thread_id == "edited")
    with SqliteSaver.from_conn_string(str(store)) as saver:
        found = chat(saver).get_state(config_of("edited")).values["messages"]
    assert found == [HumanMessage("goodbye", id="h"), AIMessage("you said hello", id="a")]
