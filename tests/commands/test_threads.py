"""`threads list` says how each thread stands, why it waits, and what it is about."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.graph import MessagesState
from langgraph.types import interrupt

from ckpt_cli.render.table import table_lines
from ckpt_cli.render.text import Ui, cell_len
from ckpt_cli.render.threads import thread_columns
from tests.commands.words import refusals
from tests.kit.agents import failing as agents
from tests.kit.agents import stopping
from tests.kit.agents.small import chain, run
from tests.kit.command import ckpt, ended

UUID = "0c5ee4a1-6f5f-4b45-9d2c-3b3b8f8d6d11"
LONG = "Where is my parcel? " * 30
BOTH = "4711"
"""A thread in whose last step one task failed while another asks."""


def _answer(state: MessagesState) -> dict[str, Any]:
    if "refund" in state["messages"][-1].text:
        raise ConnectionError("no route to payments\nfor 30 s")
    if "parcel" in state["messages"][-1].text:
        return {"messages": [AIMessage(interrupt({"question": "Send another one?"}))]}
    return {"messages": [AIMessage("Hello.")]}


GRAPH = chain(MessagesState, {"answer": _answer})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Conversations under ids that say something, and under ids that do not."""
    path = tmp_path_factory.mktemp("why") / "agent.db"

    def say(thread_id: str, *messages: Any) -> None:
        run(path, GRAPH, {"messages": list(messages)}, thread=thread_id)

    say(UUID, SystemMessage("be kind"), HumanMessage(f"\n  {LONG}\nThanks"))
    say("17", HumanMessage([{"type": "text", "text": "Hi"}, {"type": "image_url"}]))
    say("visit-anna", HumanMessage("Hi"))
    with pytest.raises(ConnectionError):
        say("refund-4711", HumanMessage("a refund, please"))
    agents.fill(path, agents.error_and_question, BOTH, marks=2)
    return path


def _rows(store: Path, *words: str) -> dict[str, dict[str, Any]]:
    rows = ckpt("-s", store, "threads", "list", *words, "-o", "json").json
    return {row["thread_id"]: row for row in rows}


def test_a_list_has_errors_questions_and_titles(store: Path) -> None:
    rows = _rows(store)
    assert rows["refund-4711"]["error"] == (
        "answer: ConnectionError('no route to payments\\nfor 30 s')"
    )
    assert rows[UUID]["question"] == {"question": "Send another one?"}
    assert rows[BOTH]["error"].startswith("crash: TimeoutError(")
    assert rows[BOTH]["question"] == "ask: ship it?"
    assert not {"error", "question"} & set(rows["visit-anna"])
    both = rows[BOTH]
    assert (both["status"], both["conditions"]) == ("error", ["error", "interrupted"])
    assert _rows(store, "--status", "interrupted").keys() == {BOTH, UUID}
    head, *lines = ckpt("-s", store, "threads", "list", "-o", "tsv").out.splitlines()
    assert {"error", "why", "question", "title"} < set(head.split("\t"))
    assert head.lower().count("why") == 1
    assert [line.count("\t") for line in lines] == [head.count("\t")] * 5
    # An id that says nothing gets a title.
    rows = _rows(store)
    title = rows[UUID]["title"]
    assert title.startswith("Where is my parcel? Where")
    assert (len(title), title[-1]) == (200, "…")
    assert rows["17"]["title"] == "Hi[image_url]"
    assert not any("title" in rows[one] for one in ("visit-anna", "refund-4711", BOTH))
    assert _rows(store, "--long", "--all")["visit-anna"]["title"] == "Hi"


def test_a_list_has_its_order_its_bounds_and_first_messages(sample: Path) -> None:
    rows = _rows(sample, "--all", "--long")
    for key in ("last", "first", "checkpoints", "namespaces", "step", "bytes", "id"):
        by = {"last": "last_at", "first": "first_at"}.get(key, key)
        largest = sorted(sorted(rows), key=lambda one: rows[one].get(by, ""), reverse=True)
        assert list(_rows(sample, "--all", "--sort", key)) == largest, key
        assert list(_rows(sample, "--sort", key, "-n", "2", "--page", "2")) == largest[2:4], key
    moment = rows["invoice-import"]["last_at"]
    since, until = _rows(sample, "--since", moment), _rows(sample, "--until", moment)
    assert since.keys() == {one for one, row in rows.items() if row["last_at"] >= moment}
    assert until.keys() == {one for one, row in rows.items() if row["last_at"] <= moment}
    assert _rows(sample, "--user", "jonas").keys() == {"refund-4711"}
    said = {one: row.get("first_message") for one, row in _rows(sample, "--first-message").items()}
    assert said["trip-to-kyoto"] == rows["trip-to-kyoto"]["title"]
    assert said["invoice-import"] is None


def _table(rows: list[dict[str, Any]], width: int) -> list[str]:
    columns = thread_columns(details=True, wide=width >= 100)
    return [one.text for one in table_lines(rows, columns, Ui(datetime.now(UTC), width=width))]


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_the_table_fits_and_never_cuts_an_id(store: Path, width: int) -> None:
    rows = list(_rows(store).values())
    lines = _table(rows, width)
    assert max(map(cell_len, lines)) <= width
    text = "\n".join(lines)
    assert all(row["thread_id"] in text for row in rows)
    assert ("WHY" in lines[0]) is ("Connec" in text) is (width >= 80)
    # The node stands before an error only if no column names it.
    assert ("answer: Connec" in text) is ("WHY" in lines[0] and "NEXT" not in lines[0])
    assert ("TITLE" in lines[0]) is (width >= 120)
    assert ("  Send another one?  " in text) is (width == 200)
    other = _table([one | {"question": {"n": 1}} for one in rows if "question" in one], 200)
    assert "{n: 1}" in "\n".join(other)
    assert ("  ConnectionError('no route to payments …" in text) is (width == 200)


def test_a_page_past_the_end_and_a_deleted_thread_are_told(sample: Path) -> None:
    assert ckpt("-s", sample, "threads", "list", "--page", "9").err == "note: there is no page 9\n"
    nobody = ckpt("-s", sample, "threads", "list", "--where", "thread = nobody")
    assert (nobody.code, nobody.err) == (0, "note: no thread matches\n")
    # Deleted threads are gone and no others.
    before = set(_rows(sample, "--all"))
    words = ("-s", sample, "threads", "delete", "trip-to-kyoto", "nobody")
    assert (ckpt(*words).code, ckpt(*words, "--dry-run").code) == (5, 7)
    assert set(_rows(sample, "--all")) == before
    ckpt(*words, "--yes", code=7, says="not found: nobody")
    assert set(_rows(sample, "--all")) == before - {"trip-to-kyoto"}


test_wrong_words_are_refused = refusals(
    ("threads show trip-to-kyoto", 2, "use `ckpt show THREAD`"),
    ("threads list --sort colour", 2, "'colour' is not one of 'last', "),
    ("threads list --status sleepy", 2, "'sleepy' is not one of 'error', "),
    ("threads list --since soon", 2, "'soon' is not a time"),
    ("threads delete", 2, "no thread given"),
    ("threads delete nobody --yes", 3, "no thread 'nobody'"),
)


# Why threads that are pending do not go on, as far as the rows of official savers tell


LATER = "2999-01-01"
"""When no run is in progress any more."""
SILENT = "silent for N"
KILLS = {
    "killed": ("killed", f"{SILENT} before charge (killed, or a breakpoint?)"),
    "beside": ("killed", f"{SILENT} in charge (killed?)"),
}
STOPS = {
    # The same rows as those of `killed`.
    "breakpoint": ("killed", f"{SILENT} before charge (killed, or a breakpoint?)"),
    "loop": ("recursion-limit", "25 steps without an end: recursion limit?"),
    "loop-again": ("recursion-limit", "25 steps without an end: recursion limit?"),
    "loop-updated": ("recursion-limit", "25 steps without an end: recursion limit?"),
    "loop-answered": ("recursion-limit", "25 steps without an end: recursion limit?"),
    "other-limit": ("killed", f"{SILENT} before search (killed, or a breakpoint?)"),
    "updated": ("not-resumed", "nothing ran since an update N ago"),
    "join": ("joins", "book waits for air, road; rail came"),
    "done": None,
}


def whys(path: Path, *words: str, as_of: str = LATER) -> dict[str, tuple[str, str] | None]:
    listed: Any = ckpt(
        "-s", path, "threads", "list", *words, "--as-of", as_of, "--long", "--all", "-o", "json"
    ).json
    found = {one["thread_id"]: one.get("why") for one in listed}
    return {
        name: None
        if why is None
        else (
            why["code"],
            " ".join(
                "N" if word[0].isdigit() and word[-1] in "dy" else word
                for word in why["text"].split()
            ),
        )
        for name, why in found.items()
    }


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_each_stop_is_named(tmp_path: Path, durability: str) -> None:
    path = tmp_path / "stops.db"
    for thread_id in STOPS:
        stopping.run(path, thread_id, durability)
    assert whys(path) == STOPS
    assert set(whys(path, "--where", "why = recursion-limit")) == {
        "loop",
        "loop-again",
        "loop-answered",
        "loop-updated",
    }


def test_a_killed_run_is_silent_in_the_node_that_did_not_end(tmp_path: Path) -> None:
    path = tmp_path / "killed.db"
    for thread_id in KILLS:
        assert ended(partial(stopping.run, path, thread_id, "sync")) == stopping.KILLED
    assert whys(path) == KILLS
    shown = ckpt("-s", path, "show", "beside", "--as-of", LATER)
    assert "(killed?)" in next(one for one in shown.out.splitlines() if one.startswith("why "))
    (join,) = ckpt("-s", path, "show", "beside", "-o", "json").json["joins"]
    assert join == {"node": "report", "waits_for": ["charge"], "has": ["plan"]}
    assert "silent for" in ckpt("-s", path, "threads", "list", "--as-of", LATER, "-o", "table").out
    now = ckpt("-s", path, "show", "killed", "-o", "json").json["why"]
    assert now["code"] == "running"
    assert now["text"].startswith("a run may be in progress (last checkpoint ")
    printed = ckpt("-s", path, "metrics").out
    assert 'ckpt_threads_pending{store="' in printed
    assert ',why="running"} 2\n' in printed
