"""The table of changes: a command line for each, the thread that it needs, and what LangGraph makes
of it afterwards. `test_changes.py` says what holds of all of them.
"""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Command

from ckpt_backends.changes import Change as StoredChange
from ckpt_backends.model import BlobKey
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.testing.library import EmptyStore, config_of_thread
from ckpt_backends.testing.scenarios.graphs import ask_twice, chat
from ckpt_backends.url import parse_url
from ckpt_cli.core.support_matrix import limit
from ckpt_cli.reading.thread import ThreadReader

CONFIG: Any = config_of_thread("a")
Prepare = Callable[[EmptyStore, Path], None]


class ChangeCase(NamedTuple):
    """A command that changes a thread of a store."""

    words: str
    """The command line. FOLDER is a folder for archives."""
    prepare: Prepare
    """Makes the thread `a`."""
    check: Callable[[EmptyStore], None]
    """Asserts what the official library makes of the thread afterwards."""
    thread: str = "a"
    """The thread that is changed or added."""
    limit: str = ""
    """The command in the support matrix; it is refused where its cell says so."""
    can_undo: bool = True
    scenario: str = ""
    """A scenario without which a saver has nothing to change."""

    def command_line(self, folder: Path) -> list[str]:
        return shlex.split(self.words.replace("FOLDER", str(folder / "archive")))

    def why_not(self, store: EmptyStore) -> str:
        """Return why there is nothing to change on a layout; `''` if there is. Assert that it says
        so.
        """
        if not self.limit:
            return ""
        store.fill("a")
        with open_store(store.url) as opened:
            found = limit(self.limit, opened.describe().capabilities)
        if found is None or found.cell not in {"no", "nothing"}:
            store.clear()
            return ""
        before = store.harness.fingerprint()
        # Without a history, the head alone can be named.
        answer = store.ckpt(*shlex.split(self.words.replace("~1", "head")), "--yes")
        is_refused = (answer.code, found.why in answer.err) == (4, True)
        assert is_refused or (answer.code, found.cell) == (0, "nothing"), answer
        assert store.harness.fingerprint() == before
        return found.why


def done(store: EmptyStore, _: Path) -> None:
    """Run the graph to its end."""
    store.fill("a")


def asking(store: EmptyStore, _: Path) -> None:
    """Run the graph until it asks."""
    store.fill("a", asks=True)


def archived(store: EmptyStore, folder: Path) -> None:
    """Export a thread, and remove it. Another one stays: an empty server tells no layout."""
    store.fill("a", "stays")
    assert store.ckpt("export", "a", "--to", folder / "archive").code == 0
    store.library.forget("a")


def answered_once(store: EmptyStore, _: Path) -> None:
    """Answer the first of two questions. LangGraph would take the answer for the second, too."""
    store.made.append("a")
    graph = ask_twice(store.harness.kept_saver)
    graph.invoke({"items": []}, CONFIG, **store.harness.run_options)
    graph.invoke(Command(resume="yes"), CONFIG, **store.harness.run_options)


def unanswered(store: EmptyStore, _: Path) -> None:
    """Store a conversation in which a call of a tool has no result."""
    store.made.append("a")
    call: Any = {"name": "book", "args": {}, "id": "call-1", "type": "tool_call"}
    calling = AIMessage("", id="ai-1", tool_calls=[call])
    said = [HumanMessage("go", id="human-1"), calling, HumanMessage("and now?", id="human-2")]
    chat(store.harness.kept_saver).update_state(CONFIG, {"messages": said}, as_node="tools")


def without_a_value(store: EmptyStore, _: Path) -> None:
    """Lose a value of the head."""
    store.fill("a")
    with open_store(store.url) as opened:
        reader = ThreadReader(opened, "a")
        head = reader.stored("", reader.head("") or "")
    if head.checkpoint.blobs is None:
        with store.harness.saver() as saver:
            found = saver.get_tuple(CONFIG)
            found.checkpoint["channel_values"].pop("items")
            saver.put(found.parent_config, found.checkpoint, found.metadata, {})
        return
    lost = BlobKey("", "items", str(head.body.versions["items"]))
    change = StoredChange("a", {"": head.key.checkpoint_id}, removed_blobs=(lost,))
    with open_writable(parse_url(store.url)) as writable:
        writable.apply(change)


def is_gone(store: EmptyStore) -> None:
    assert (store.read("a"), store.rows("a")) == ([], [])


def goes_on_with(*nodes: str, thread: str = "a") -> Callable[[EmptyStore], None]:
    """Return the check that these nodes run next."""

    def check(store: EmptyStore) -> None:
        assert store.library.next(thread) == list(nodes)

    return check


def asks_again(store: EmptyStore) -> None:
    state = ask_twice(store.harness.kept_saver).get_state(CONFIG)
    assert [(one.name, one.interrupts) for one in state.tasks] == [("ask", ())]


def has_all_results(store: EmptyStore) -> None:
    state = chat(store.harness.kept_saver).get_state(CONFIG)
    assert [one.type for one in state.values["messages"]] == ["human", "ai", "tool", "human"]


def has_the_value(store: EmptyStore) -> None:
    (_, head, _), *_ = store.read("a")
    assert head["channel_values"]["items"] == ["in", "first 1", "second"]


CHANGES: Mapping[str, ChangeCase] = {
    "rollback": ChangeCase("rollback a ~1", done, goes_on_with("second"), limit="rollback"),
    "edited fork": ChangeCase(
        """fork a ~1 --replace 'items=["new"]'""", done, goes_on_with("second"), limit="fork"
    ),
    "copy of a thread": ChangeCase(
        "copy a --as new", asking, goes_on_with("first", thread="new"), "new", "copy --as"
    ),
    "copy of a checkpoint": ChangeCase(
        "copy a --at ~1 --as new",
        done,
        goes_on_with("second", thread="new"),
        "new",
        "copy --at REF --as",
    ),
    "repair messages": ChangeCase(
        "repair messages a", unanswered, has_all_results, limit="repair messages"
    ),
    "repair values": ChangeCase(
        "repair values a", without_a_value, has_the_value, limit="repair values"
    ),
    "repair writes": ChangeCase(
        "repair writes a",
        answered_once,
        asks_again,
        limit="repair writes",
        scenario="command-input",
    ),
    "threads delete": ChangeCase("threads delete a --archive FOLDER", asking, is_gone),
    "purge --keep-last": ChangeCase(
        "purge --match a --keep-last 1 --archive FOLDER",
        done,
        goes_on_with(),
        limit="purge --keep-last",
    ),
    "import": ChangeCase("import FOLDER", archived, goes_on_with()),
    "erase": ChangeCase("erase a", done, is_gone, can_undo=False),
}
