"""`ckpt repair` of messages, writes and values: one thread, and many, of which some need none."""

import json
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import MessagesState
from langgraph.types import Command, interrupt

from ckpt_backends.codec.edits import Put, set_keys
from ckpt_backends.errors import Refused
from ckpt_backends.model import NULL_TASK_ID, TypedBytes
from ckpt_backends.registry import open_store
from ckpt_cli.apply import changes
from ckpt_cli.apply.changes import Work
from ckpt_cli.plans.proposal import Proposal
from ckpt_cli.plans.repair import plan_write_repair
from ckpt_cli.reading.thread import ThreadReader
from tests.kit.agents.asking import CONFIG, Two, asked
from tests.kit.agents.small import Log, beside, chain, saver_of
from tests.kit.command import CommandResult, apply_change, ckpt
from tests.kit.planting.steps import THREAD, Rows, graph, make_store
from tests.kit.rows import change, rows_of

BROKEN = ("left", "right")
STALE = ("a", "b", "c")


def config(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id}}


@pytest.fixture
def saver(path: Path) -> Iterator[SqliteSaver]:
    with saver_of(path) as found:
        yield found


def conversation(*, is_broken: bool) -> list[AnyMessage]:
    """Return a conversation with two calls, of which one may lack its result."""
    calls: list[Any] = [
        {"name": name, "args": {}, "id": f"call-{name}", "type": "tool_call"}
        for name in ("search", "book")
    ]
    result = ToolMessage("booked", tool_call_id="call-book", name="book", id="result-2")
    return [
        HumanMessage("go", id="human-1"),
        AIMessage("", id="ai-1", tool_calls=calls),
        ToolMessage("found", tool_call_id="call-search", name="search", id="result-1"),
        *([] if is_broken else [result]),
        HumanMessage("and now?", id="human-2"),
    ]


@pytest.fixture
def talks(saver: SqliteSaver) -> Any:
    """The graph of two threads that a model's API refuses, and of a sound one."""
    nodes = {"agent": lambda _: {"messages": [AIMessage("done", id="ai-2")]}}
    graph = chain(MessagesState, nodes).compile(checkpointer=saver)
    for name in (*BROKEN, "sound"):
        messages = conversation(is_broken=name in BROKEN)
        graph.update_state(config(name), {"messages": messages}, as_node="agent")
    return graph


def results(graph: Any, thread_id: str) -> dict[str, Any]:
    """Return the results of tools by the id of the call."""
    found = graph.get_state(config(thread_id)).values["messages"]
    return {one.tool_call_id: one for one in found if isinstance(one, ToolMessage)}


def test_a_call_gets_a_result_with_the_content_of_the_user(talks: Any, path: Path) -> None:
    words = ("-s", path, "repair", "messages", "left", "--content", "stopped")
    assert "mends    'messages': 1 result is added" in ckpt(*words, "--dry-run", code=0).out
    done = ckpt(*words, "--yes", "--reason", "a crash", "-o", "json").json
    assert done["action"] == "repair"
    added = results(talks, "left")["call-book"]
    assert (added.content, added.status) == ("stopped", "error")
    assert talks.get_state(config("left")).metadata["reason"] == "a crash"
    given = {"configurable": done["configurable"]}
    types = [one.type for one in talks.invoke(None, given)["messages"]]
    assert types == ["human", "ai", "tool", "tool", "human"]


def test_the_answer_ends_with_what_to_resume(talks: Any, path: Path) -> None:
    tsv = ckpt("-s", path, "repair", "messages", "--all", "--dry-run", "-o", "tsv")
    assert tsv.out.splitlines()[0].split("\t")[:3] == ["thread_id", "state", "next"]
    table = ckpt("-s", path, "repair", "messages", "--match", "*t", "--yes", "-o", "table")
    assert "repaired 2 threads" in table.out
    lines = [one for one in table.out.splitlines() if one.startswith("  {")]
    assert len(lines) == len(BROKEN)
    assert all('"checkpoint_id"' in one for one in lines)


def test_a_call_that_may_get_a_result_is_refused_or_left_out(talks: Any, path: Path) -> None:
    waiting = {"messages": conversation(is_broken=True)[:2]}
    talks.update_state(config("waiting"), waiting, as_node="agent")
    alone = ckpt("-s", path, "repair", "messages", "waiting", "--yes")
    assert (alone.code, "the call of 'search', 'book'" in alone.err) == (5, True)
    hidden = ckpt("--redact", "-s", path, "repair", "messages", "waiting", "--yes", code=5)
    assert ("the call of a tool has yet" in hidden.err, "search" in hidden.err) == (True, False)
    answer = ckpt("-s", path, "repair", "messages", "--all", "--yes", "-o", "json", code=0)
    assert {one["thread_id"] for one in answer.json} == set(BROKEN)
    assert all("1 result is added" in one["mends"][0] for one in answer.json)
    for name in (*BROKEN, "sound"):
        assert set(results(talks, name)) == {"call-search", "call-book"}


@pytest.mark.parametrize("update", [AIMessage("other", id="ai-1"), RemoveMessage(id="human-1")])
def test_a_conversation_that_the_caller_has_changed_is_refused(
    talks: Any, saver: SqliteSaver, path: Path, update: AnyMessage
) -> None:
    saver.put_writes(talks.get_state(config("left")).config, [("messages", [update])], NULL_TASK_ID)
    before = rows_of(path)
    refused = ckpt("-s", path, "repair", "messages", "left", "--yes", code=4)
    assert "the caller's last update changes its messages" in refused.err
    assert rows_of(path) == before


@pytest.fixture
def two(saver: SqliteSaver) -> Two:
    """Three threads with a used answer, and one with an open question."""
    two = Two(saver)
    for one in STALE:
        two.make_stale(config(one))
    two.graph.invoke({"log": []}, config("sound"))
    return two


def repair(path: Path, *words: str) -> CommandResult:
    return ckpt("-s", path, "repair", "writes", "-o", "ndjson", *words)


def found(answer: CommandResult) -> dict[str, dict[str, Any]]:
    """Return the records by thread."""
    return {one["thread_id"]: one for one in map(json.loads, answer.out.splitlines())}


def test_all_threads_that_need_it_are_repaired(two: Two, path: Path) -> None:
    before = rows_of(path)
    shown = found(repair(path, "--all", "--dry-run"))
    assert {name: one["state"] for name, one in shown.items()} == dict.fromkeys(STALE, "planned")
    assert rows_of(path) == before
    answer = repair(path, "--all", "--yes")
    assert answer.code == 0
    done = found(answer)
    assert {name: one["state"] for name, one in done.items()} == dict.fromkeys(STALE, "repaired")
    assert done["a"]["next"] == ["ask"]
    assert "changes" not in done["a"]
    for name in STALE:
        given = {"configurable": done[name]["configurable"]}
        assert asked(two.graph.invoke(None, given)) == ["second?"]
    again = repair(path, "--all", "--yes")
    assert (again.code, again.out) == (0, "")
    assert "nothing to repair" in again.err


def test_words_choose_threads_or_are_refused(two: Two, path: Path) -> None:
    where = ("--where", "status = interrupted and not thread = c")
    for words in (("--match", "[ab]"), where, ("a", "b", "sound")):
        assert set(found(repair(path, *words, "--dry-run"))) == {"a", "b"}
    before = rows_of(path)
    for line in ("", "a --all", "a --match *", "--all --match *", "--at ~1", "a a@~0 b"):
        refused = repair(path, *line.split(), "--yes")
        assert (refused.code, rows_of(path)) == (2, before)
    assert "thread 'a' is named with different checkpoints" in refused.err


def test_an_interrupt_finishes_the_thread_in_hand(
    two: Two, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Work.carry_out

    def interrupted(self: Work, some: list[Proposal]) -> Any:
        if any(one.step for one in some):
            signal.raise_signal(signal.SIGINT)
        return plain(self, some)

    monkeypatch.setattr(Work, "carry_out", interrupted)
    monkeypatch.setattr(changes, "_PROPOSALS", 1)
    before = rows_of(path)
    answer = repair(path, "--all", "--yes")
    assert answer.code == 130
    assert [one["state"] for one in found(answer).values()] == ["repaired"]
    assert len({row[2:4] for row in rows_of(path) - before if row[0] == "checkpoints"}) == 1


def test_the_second_question_is_asked_again(saver: SqliteSaver, path: Path) -> None:
    two = Two(saver)
    two.make_stale()
    before = rows_of(path)
    shown = ckpt("-s", path, "repair", "writes", "t", "--dry-run", "-o", "json").json
    assert rows_of(path) == before
    assert (shown["action"], shown["next"], shown["again"]) == ("repair", ["ask"], [])
    assert "the result of pay is kept" in shown["notes"]
    ckpt("-s", path, "repair", "writes", "t@~1", "--yes", code=5, says="not the head")

    done = ckpt("-s", path, "repair", "writes", "t", "--yes", "--reason", "stale", "-o", "json")
    assert done.code == 0, done.err
    config = {"configurable": done.json["configurable"]}
    assert asked(two.graph.invoke(None, config)) == ["second?"]
    assert two.graph.get_state(CONFIG).metadata["reason"] == "stale"
    assert two.graph.invoke(Command(resume="no"), config)["log"] == ["yes and no", "paid"]
    assert two.ran == ["ask", "ask"]


@pytest.mark.parametrize("failures", [0, 2])
def test_a_subgraph_asks_again_from_its_first_question(
    saver: SqliteSaver, path: Path, failures: int
) -> None:
    """Also beside another subgraph that failed, and so has not used the answer."""
    left = ["the first answer", "the second"][:failures]

    def fails(_: Log) -> dict[str, Any]:
        if left:
            raise ValueError(left.pop())
        return {"log": []}

    two = Two(saver, is_nested=True, more={"other": chain(Log, {"fails": fails}).compile()})
    two.make_stale()
    done = ckpt("-s", path, "repair", "writes", "t", "--yes", "-o", "json", code=0)
    assert asked(two.graph.invoke(None, {"configurable": done.json["configurable"]})) == ["first?"]
    assert two.ran == ["ask"]


def test_an_answer_that_nobody_asked_for_is_dropped_later(saver: SqliteSaver, path: Path) -> None:
    """The agent was stopped before any task could take the answer."""
    builder = chain(Log, {"ask": lambda _: {"log": [interrupt("first?")]}})
    stopped = builder.compile(checkpointer=saver, interrupt_before=["ask"])
    stopped.invoke({"log": []}, CONFIG)
    saver.put_writes(stopped.get_state(CONFIG).config, [("__resume__", "yes")], NULL_TASK_ID)
    graph = builder.compile(checkpointer=saver)
    with open_store(str(path)) as store:
        now = datetime.now(UTC)
        with pytest.raises(Refused, match="may be about to use"):
            plan_write_repair(ThreadReader(store, "t"), store, None, now)
        later = now + timedelta(minutes=2)
        plan = plan_write_repair(ThreadReader(store, "t"), store, None, later)
    apply_change(str(path), plan.change)
    assert asked(graph.invoke(None, {"configurable": plan.configurable})) == ["first?"]


class Form:
    """A node that fails with the answer it gets, beside one that has finished."""

    def __init__(self, saver: Any, *, is_nested: bool = False) -> None:
        self.ran: list[str] = []
        age = chain(Log, {"age": self._age}).compile() if is_nested else self._age
        self.graph = beside(Log, {"age": age, "pay": self._pay}).compile(checkpointer=saver)

    def _age(self, _: Log) -> dict[str, Any]:
        self.ran.append("age")
        return {"log": [f"{int(interrupt('age?'))} years"]}

    def _pay(self, _: Log) -> dict[str, Any]:
        self.ran.append("pay")
        return {"log": ["paid"]}

    def answer(self, text: str) -> Any:
        try:
            return self.graph.invoke(Command(resume=text), CONFIG)
        except ValueError as error:
            return str(error)


@pytest.mark.parametrize("is_nested", [False, True])
def test_an_answer_that_failed_is_used_first_until_it_is_dropped(
    saver: SqliteSaver, path: Path, *, is_nested: bool
) -> None:
    form = Form(saver, is_nested=is_nested)
    form.graph.invoke({"log": []}, CONFIG)
    assert "forty" in form.answer("forty")
    assert "forty" in form.answer("40")  # the first answer is used again
    node = "age > age" if is_nested else "age"
    resume = ckpt("-s", path, "show", "t", "-o", "json").json["resume"]
    assert (resume["runs"], resume["applies"], resume["asks"]) == ([node], ["pay"], [])
    assert (resume["answered"], resume["stored_answer"]) == ([node], "unused")
    assert resume["call"] == "graph.invoke(None, config)"
    assert ckpt("-s", path, "interrupts", "-o", "json").json == []
    (row,) = ckpt("-s", path, "threads", "list", "-o", "json").json
    assert row["conditions"] == ["error"]
    shown = ckpt("-s", path, "show", "t").out
    assert f"gives {node} the same answer again" in shown
    assert "the answer that was given last is stored, too, but no question gets it" in shown
    assert "repair writes t" in shown
    # Of many threads, none is asked again: the failure may have another cause.
    assert "nothing to repair" in ckpt("-s", path, "repair", "writes", "--all", "--yes").err
    done = ckpt("-s", path, "repair", "writes", "t", "--yes", "-o", "json", code=0)
    form.ran.clear()
    assert asked(form.graph.invoke(None, {"configurable": done.json["configurable"]})) == ["age?"]
    assert form.ran == ["age"]  # the result of `pay` is kept
    assert "40 years" in form.answer("40")["log"]


OF_THE_HEAD = "checkpoint_id = (SELECT max(checkpoint_id) FROM checkpoints)"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("values") / "store.db"
    make_store(path)
    change(path, "PRAGMA journal_mode = DELETE")
    return path.read_bytes()


@pytest.fixture
def stepped(whole: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    path.write_bytes(whole)
    return path


def values(path: Path) -> Any:
    with SqliteSaver.from_conn_string(str(path)) as saver:
        return graph(saver).get_state({"configurable": {"thread_id": THREAD}}).values


def damage(path: Path, change: Callable[[dict[str, Any]], Any], before: int = 0) -> None:
    """Change the values of the head, or of a checkpoint some steps before it."""
    with closing(sqlite3.connect(path)) as db, db:
        planted = Rows(db)
        planted.body(max(planted.ids()) - before, change)


def spoil(path: Path, old: bytes, new: bytes) -> None:
    """Change bytes in the body of the head."""
    assert len(old) == len(new)
    ((data,),) = change(path, f"SELECT checkpoint FROM checkpoints WHERE {OF_THE_HEAD}")
    assert old in data
    statement = f"UPDATE checkpoints SET checkpoint = ? WHERE {OF_THE_HEAD}"
    change(path, statement, data.replace(old, new))


def repair_values(path: Path, *more: str) -> Any:
    return ckpt("-s", path, "repair", "values", THREAD, "-o", "json", *more)


def test_before_format_4_what_has_finished_runs_again(saver: SqliteSaver, path: Path) -> None:
    Two(saver).make_stale()
    ((data,),) = change(path, f"SELECT checkpoint FROM checkpoints WHERE {OF_THE_HEAD}")
    older = set_keys(TypedBytes("msgpack", data), {"v": Put(3)})
    change(path, f"UPDATE checkpoints SET checkpoint = ? WHERE {OF_THE_HEAD}", older.data)
    shown = ckpt("-s", path, "repair", "writes", "t", "--dry-run", "-o", "json").json
    assert (shown["next"], shown["again"], shown["saved"]) == (["ask", "pay"], ["pay"], [])


def test_results_and_writes_of_the_caller_are_taken_back(saver: SqliteSaver, path: Path) -> None:
    two = Two(saver)
    two.make_stale()
    saver.put_writes(two.graph.get_state(CONFIG).config, [("log", ["mine"])], NULL_TASK_ID)
    before = rows_of(path)
    for words in ("repair writes t", "undo"):
        ckpt("-s", path, *words.split(), "--yes", code=0)
    assert rows_of(path) == before


@pytest.mark.parametrize("channel", ["messages", "log", "total", "facts", "tags", "mood"])
def test_a_missing_value_of_a_head_is_restored_and_taken_back(stepped: Path, channel: str) -> None:
    expected = values(stepped)
    damage(stepped, lambda stored: stored.pop(channel))
    damaged = rows_of(stepped)
    hidden = repair_values(stepped, "--redact", "--dry-run").json
    assert hidden["repaired"][0]["value"]["$type"] == "ckpt.redacted"
    done = repair_values(stepped, "--yes")
    assert done.code == 0, done.err
    assert [one["channel"] for one in done.json["repaired"]] == [channel]
    assert (done.json["form"], list(done.json["changes"])) == ("child", [channel])
    assert values(stepped) == expected
    assert {row for row in damaged if row[0] == "checkpoints"} <= rows_of(stepped)
    assert repair_values(stepped, "--yes").code == 3
    ckpt("-s", stepped, "replay", THREAD, "--repair", "--yes", code=0)
    ckpt("-s", stepped, "undo", THREAD, "--yes", code=0)
    assert rows_of(stepped) == damaged


@pytest.mark.parametrize("before", [0, 2])
def test_a_message_that_cannot_be_decoded_is_replaced(stepped: Path, before: int) -> None:
    """At the step that wrote it, or at a later one."""
    for _ in range(before):
        change(stepped, f"DELETE FROM checkpoints WHERE {OF_THE_HEAD}")
    expected = values(stepped)
    spoil(stepped, b"langchain_core.messages.ai", b"langchain_core.message\xff.ai")
    done = repair_values(stepped, "--yes")
    assert done.code == 0, done.err
    assert [one["replaces"] for one in done.json["repaired"]] == [True]
    assert values(stepped) == expected


def test_the_graph_resumes_from_restored_values(stepped: Path) -> None:
    damage(stepped, lambda stored: (stored.pop("log"), stored.pop("messages")))
    config = {"configurable": repair_values(stepped, "--yes").json["configurable"]}
    with SqliteSaver.from_conn_string(str(stepped)) as saver:
        human = HumanMessage("and now?", id="human-9")
        answer = graph(saver).invoke({"messages": [human], "log": ["asked"]}, config)
    assert [one.id for one in answer["messages"]][-3:] == ["ai-5", "human-9", "ai-7"]
    assert len(answer["log"]) == 16
    assert ckpt("-s", stepped, "replay", THREAD, "--verify").code == 1  # the damaged one is kept


@pytest.mark.parametrize("channel", ["log", "messages"])
def test_an_older_checkpoint_is_left_alone(stepped: Path, channel: str) -> None:
    """Whether its step wrote the value or not."""
    damage(stepped, lambda stored: stored.pop(channel), before=3)
    before = rows_of(stepped)
    done = repair_values(stepped, "--dry-run")
    assert done.code == 5
    (refused,) = json.loads(done.out)["refused"]
    assert "is not the head" in refused["reason"]
    assert repair_values(stepped, "--yes").code == 5
    assert rows_of(stepped) == before


def test_a_body_that_cannot_be_decoded_is_refused(stepped: Path) -> None:
    cut = "UPDATE checkpoints SET checkpoint = substr(checkpoint, 1, 99)"
    change(stepped, f"{cut} WHERE {OF_THE_HEAD}")
    answer = ckpt("-s", stepped, "repair", "values", THREAD, "--yes", code=5)
    assert f"`ckpt -s {stepped} rollback {THREAD} '~1'`" in answer.err


def test_it_is_refused_where_no_write_is_stored(stepped: Path) -> None:
    change(stepped, "DELETE FROM writes WHERE channel = 'log'")
    damage(stepped, lambda stored: stored.pop("log"))
    assert repair_values(stepped, "--yes").code == 5
    # A value beside it is restored, alone and among many threads.
    damage(stepped, lambda stored: stored.pop("messages"))
    ckpt("-s", stepped, "repair", "values", THREAD, "--dry-run", code=7, says="cannot restore 1")
    answer = ckpt("-s", stepped, "repair", "values", "--match", "*", "--yes", code=7)
    assert "some values could not be restored" in answer.err
    assert values(stepped)["messages"]
