"""`replay`, `diff --writes` and `doctor --deep` give one verdict on each step: each planted fault
is found where it is, and what agents do themselves is none.
"""

import operator
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import ormsgpack
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.channels.topic import Topic
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import MessagesState
from langgraph.graph.message import _messages_delta_reducer
from typing_extensions import TypedDict

from ckpt_backends.registry import open_store
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.testing.scenarios.running import ScenarioRun
from ckpt_cli.queries.replay import KeptReplay, written
from ckpt_cli.reading.target import Target
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.replay import WRITTEN
from tests.kit.agents.small import chain, run
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, ckpt, copy_store, first_now
from tests.kit.planting import steps as planting
from tests.kit.planting.steps import THREAD, Rows, make_store

CONFIG: Any = {"configurable": {"thread_id": "t"}}
Verdicts = dict[tuple[str, str, str, str], tuple[str, str | None]]
"""By thread, namespace, checkpoint and channel: the verdict and the reducer."""


def replayed(path: Path) -> Verdicts:
    return {
        (one["thread_id"], one["checkpoint_ns"], one["child"], one["channel"] or ""): (
            one["verdict"],
            one["reducer"],
        )
        for thread in ckpt("-s", path, "threads", "list", "--all", "-o", "json").json
        for one in ckpt(
            "-s", path, "replay", "--all-steps", "-o", "json", "--", thread["thread_id"]
        ).json
    }


def compared(path: Path, places: Verdicts) -> Verdicts:
    """Return the same as `diff --writes` tells it."""
    found: Verdicts = {}
    readers: dict[str, tuple[ThreadReader, KeptReplay]] = {}
    with open_store(str(path)) as store:
        for thread, ns, child in {place[:3] for place in places}:
            reader, kept = readers.setdefault(thread, (ThreadReader(store, thread), KeptReplay()))
            step = WRITTEN.record(written(Target(reader, ns, child, chosen=True), {}, kept=kept))
            for name, one in step["channels"].items():
                found[thread, ns, child, name] = one["verdict"], one["reducer"]
                assert one["verdict"] == "mismatch" or "differences" not in one
                assert one["reducer"] or not one["writes"] or "differences" not in one
    return found


def diagnosed(path: Path) -> set[tuple[str, str, str, str]]:
    answer = ckpt("-s", path, "doctor", "--deep", "--grace", "0s", "-o", "json").json
    codes = {"state-mismatch", "branches-share-value", "value-missing", "delta-unanchored"}
    names = ("thread_id", "checkpoint_ns", "checkpoint_id", "channel")
    found = [one for one in answer["findings"] if one["code"] in codes]
    return {tuple(one[name] for name in names) for one in found}


def agreed(path: Path) -> list[str]:
    """Assert that all three agree; return the verdicts that are not a match."""
    first = replayed(path)
    # It also shows DeltaChannels that a step did not write.
    assert {place: one for place, one in compared(path, first).items() if place in first} == first
    assert diagnosed(path) == {place for place, one in first.items() if one[0] == "mismatch"}
    return [verdict for verdict, _ in first.values() if verdict != "match"]


# Planted faults

Fault = tuple[tuple[int, str], Callable[[Rows], Any]]
"""The step and the channel in which it is found, and what plants it."""
LEFT, RIGHT = "%left", "%right"
AI = AIMessage("other", id="ai-1")


def write(step: int, channel: str, change: Callable[[Any], Any], path: str = "%") -> Fault:
    return (step + 1, channel), lambda rows: rows.write(step, channel, change, path)


def drop(step: int, channel: str, path: str = "%") -> Fault:
    return (step + 1, channel), lambda rows: rows.drop_write(step, channel, path)


def body(step: int, channel: str, change: Callable[[Any], Any]) -> Fault:
    def plant(rows: Rows) -> None:
        rows.body(step, lambda values: values.update({channel: change(values[channel])}))

    return (step, channel), plant


FAULTS: dict[str, Fault] = {
    # A turn has steps -1 (input), 0 (__start__), 1 (model), 2 (left, right), 3 (close).
    "a written message": write(5, "messages", lambda _: [AIMessage("other", id="ai-3")]),
    "the id of a written message": write(5, "messages", lambda _: [AIMessage("answer 3", id="x")]),
    "a written number": write(6, "total", lambda n: n + 1, LEFT),
    "a written item": write(7, "log", lambda _: ["other"]),
    "a write of a plain channel": write(7, "mood", lambda _: "other"),
    "a written dict": write(6, "facts", lambda one: {**one, "more": 1}, RIGHT),
    "a written set": write(6, "tags", lambda _: {"x"}, RIGHT),
    "a write row removed": drop(7, "log"),
    "one of two write rows removed": drop(6, "log", LEFT),
    "a write of a plain channel removed": drop(7, "mood"),
    "two writes swapped": ((7, "log"), lambda rows: rows.swap_writes(6, "log", "left", "right")),
    "a message dropped in the middle": body(7, "messages", lambda old: [old[0], *old[2:]]),
    "a message dropped at the head": body(13, "messages", lambda old: old[:-1]),
    "the newest message dropped as it came": body(6, "messages", lambda old: old[:-1]),
    "two messages swapped": body(7, "messages", lambda old: [old[1], old[0], *old[2:]]),
    "a message edited": body(7, "messages", lambda old: [old[0], AI, *old[2:]]),
    "a number": body(7, "total", lambda _: 99),
    "a number's type": body(7, "total", lambda _: 8.0),
    "a plain value": body(8, "mood", lambda _: "other"),
    "a plain value where nothing wrote it": body(7, "mood", lambda _: "other"),
    "a plain value at the head": body(13, "mood", lambda _: "other"),
    "a value at an input": body(9, "log", lambda _: ["other"]),
    "a key removed": body(8, "facts", lambda old: {k: old[k] for k in old if k != "left2"}),
    "a member added": body(8, "tags", lambda old: {*old, "x"}),
    "a channel removed": ((8, "log"), lambda rows: rows.body(8, lambda values: values.pop("log"))),
    "a value put in twice": body(8, "log", lambda old: [*old, "closed"]),
}


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("planted") / "store.db"
    make_store(path)
    return path


def test_nothing_is_found_where_nothing_is_planted(clean: Path) -> None:
    answer = ckpt("-s", clean, "replay", THREAD, "--verify", "-o", "json", code=0)
    assert answer.json["mismatch"] == answer.json["unverifiable"] == 0
    assert answer.json["match"] == answer.json["transitions"] == 15
    own = {name: one["reducer"] for name, one in answer.json["channels"].items()}
    expected = {"messages": "add_messages", "log": "append", "total": "sum", "mood": "last_value"}
    assert own == {**expected, "facts": "dict_merge", "tags": "set_union"}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(clean: Path, tmp_path: Path, name: str) -> None:
    where, plant = FAULTS[name]
    path = copy_store(clean, tmp_path)
    with closing(sqlite3.connect(path)) as db, db:
        plant(Rows(db))
        steps = {one: step for step, one in Rows(db).ids().items()}
    answer = ckpt("-s", path, "replay", THREAD, "--verify", "-o", "json", code=1)
    wrong = [one for one in answer.json["findings"] if one["verdict"] == "mismatch"]
    assert [(one["step"], one["channel"]) for one in wrong] == [where]
    assert [steps[one["child"]] for one in wrong] == [where[0]]
    assert answer.json["mismatch"] == 1
    shown = ckpt("-s", path, "diff", "--writes", "--exit-code", f"{THREAD}@{wrong[0]['child']}")
    assert (shown.code, "differs" in shown.out) == (1, True)
    if name in {"a written number", "two writes swapped", "a plain value"}:
        assert agreed(path) == ["mismatch"]


def test_a_fault_is_found_by_a_told_reducer_alone(clean: Path, tmp_path: Path) -> None:
    ckpt("-s", clean, "replay", THREAD, "--verify", "--reducer", "mood=append", code=1)
    profile = tmp_path / "ckpt.toml"
    profile.write_text(f'[stores.x]\nurl = "{clean}"\n[stores.x.reducers]\nmood = "append"\n')
    told = ckpt("--config", profile, "-s", "x", "replay", THREAD, "--verify", "-o", "json", code=1)
    assert told.json["channels"]["mood"]["told"] is True
    known = ckpt(
        *("--config", profile, "-s", "x", "replay", THREAD, "--verify"),
        *("--reducer", "mood=custom", "-o", "json"),
    )
    assert known.code == 0
    assert known.json["unverifiable"] > 0


# What official agents store and no fault befell


class SlowSaver(SqliteSaver):
    """Store a checkpoint a little later than its step, as over a network."""

    def put(self, *args: Any, **options: Any) -> Any:
        time.sleep(0.03)
        return super().put(*args, **options)


def two_turns(builder: Any, saver: Any) -> None:
    for text in ("hi", "again"):
        builder.compile(checkpointer=saver).invoke({"messages": [("user", text)]}, CONFIG)


class Trail(TypedDict, total=False):
    trail: Annotated[list[str], Topic(str, accumulate=True)]
    step: int


def aliased_topic(saver: Any) -> None:
    """An earlier row gets what later steps add to the same list."""
    builder = chain(
        Trail, {one: lambda _, x=one, n=n: {"trail": x, "step": n} for n, one in enumerate("abc")}
    )
    builder.compile(checkpointer=saver).invoke({"step": 0}, CONFIG, durability="async")


class Metrics(TypedDict):
    m: Annotated[dict[str, int], operator.or_]


def shared_dict(saver: Any) -> None:
    """All nodes write one dict that they go on to change."""
    history = {"sum": 0}

    def node(name: str) -> Callable[[Any], Any]:
        def run(_: Any) -> Any:
            history["sum"] += 1
            history[name] = 1
            time.sleep({"n1": 0.1, "n2": 0.02, "n3": 0.05}.get(name, 0))
            return {"m": history}

        return run

    builder = chain(Metrics, {"first": node("first")}).add_node("last", node("last"))
    for name in ("n1", "n2", "n3"):
        builder.add_node(name, node(name)).add_edge("first", name).add_edge(name, "last")
    builder.compile(checkpointer=saver).invoke({"m": {}}, CONFIG)


def raw_calls(saver: Any) -> None:
    """Calls of a provider that are assigned are parsed when the message is loaded."""

    def model(_: Any) -> Any:
        message = AIMessage("")
        function = {"name": "search", "arguments": '{"q": 1}'}
        message.additional_kwargs = {"tool_calls": [{"id": "c", "function": function}]}
        return {"messages": [message]}

    two_turns(chain(MessagesState, {"model": model}), saver)


def changed_and_written(saver: Any) -> None:
    """A node changes a message, and returns another one."""

    def talk(state: Any) -> Any:
        number = len(state["messages"])
        if number == 9:
            state["messages"][2].content = "[removed]"
        return {"messages": [AIMessage(f"answer {number}")]}

    builder = chain(MessagesState, {"talk": talk})
    for turn in range(7):
        agent = builder.compile(checkpointer=saver)
        agent.invoke({"messages": [HumanMessage(f"q{turn}")]}, CONFIG, durability="sync")


def by(reducer: Any, first: Any, *writes: Any) -> Callable[[Any], None]:
    """Return a run in which each step writes something, merged by a reducer of its own."""

    def run(saver: Any) -> None:
        schema: Any = TypedDict
        nodes: Any = {f"n{n}": lambda _, write=one: {"x": write} for n, one in enumerate(writes)}
        builder = chain(schema("Own", {"x": Annotated[type(first), reducer]}), nodes)
        builder.compile(checkpointer=saver).invoke({"x": first}, CONFIG, durability="sync")

    return run


def overridden(old: list[str], new: Any) -> list[str]:
    """As in open_deep_research."""
    if isinstance(new, dict) and new.get("type") == "override":
        return list(new.get("value", new))
    return [*old, *new]


def without_none(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """As the files of Deep Agents."""
    return {key: value for key, value in {**old, **new}.items() if value is not None}


def nested(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return {key: {**old.get(key, {}), **new.get(key, {})} for key in {**old, **new}}


MAYBE = {"unverifiable"}
HABITS: dict[str, Callable[[Any], None]] = {
    "files": by(without_none, {"a": 1}, {"b": 2}, {"c": 3}, {"b": None}, {"d": 4}),
    "sorted": by(lambda old, new: sorted(old + new), ["a"], ["b"], ["c"], ["aa"], ["d"], ["e"]),
    "nested": by(nested, {"a": {"x": 1}}, {"b": {"x": 1}}, {"a": {"y": 2}}, {"c": {}}, {"d": {}}),
    "reset": by(lambda old, new: 0 if new < 0 else old + new, 1, 2, 3, -1, 5, 6),
}
"""Reducers that differ from a known one in some steps, after which later steps go on."""
KINDS: dict[str, tuple[Callable[[Any], None], set[str]]] = {
    **{name: (run, MAYBE) for name, run in HABITS.items()},
    "override": (by(overridden, ["a"], ["b"], {"type": "override", "value": ["z"]}, ["d"]), set()),
    "topic": (aliased_topic, MAYBE),
    "dict": (shared_dict, MAYBE),
    "raw": (raw_calls, set()),
    "written": (changed_and_written, MAYBE),
}


@pytest.fixture(params=KINDS)
def stored(request: pytest.FixtureRequest, path: Path) -> tuple[Path, set[str]]:
    fill, expected = KINDS[request.param]
    with SlowSaver.from_conn_string(str(path)) as saver:
        fill(saver)
    return path, expected


def test_what_an_agent_does_itself_is_no_mismatch(stored: tuple[Path, set[str]]) -> None:
    path, expected = stored
    assert set(agreed(path)) <= expected


def test_a_changed_write_under_several_possible_reducers(path: Path) -> None:
    """None is named, and a value is not compared with the one before."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        shared_dict(saver)
    with sqlite3.connect(path) as db:
        (row, value), *_ = db.execute(
            "SELECT rowid, value FROM writes WHERE channel = 'm' ORDER BY checkpoint_id DESC"
        ).fetchall()
        written = ormsgpack.unpackb(value)
        changed = ormsgpack.packb({**written, "sum": written["sum"] + 1})
        db.execute("UPDATE writes SET value = ? WHERE rowid = ?", (changed, row))
    agreed(path)
    shown = ckpt("-s", path, "diff", "--writes", "t", "-o", "table").out
    told = ckpt("-s", path, "diff", "--writes", "t", "-o", "json").json["channels"]["m"]
    assert told["reducer"] is None
    assert "differs" not in shown
    assert not any(name in shown for name in ("dict_merge", "any_value", "ephemeral"))


# DeltaChannels


class Never(TypedDict, total=False):
    messages: Annotated[list[Any], DeltaChannel(_messages_delta_reducer)]
    note: str


def talk(saver: Any, schema: type, turns: int) -> None:
    def answer(state: Any) -> Any:
        number = len(state["messages"])
        return {"messages": [AIMessage(f"answer {number}", id=f"a{number}")], "note": "said"}

    builder = chain(schema, {"talk": answer})
    for turn in range(turns):
        human = HumanMessage(f"q{turn}", id=f"q{turn}")
        builder.compile(checkpointer=saver).invoke({"messages": [human]}, CONFIG)


def test_a_thread_without_snapshots_says_what_cannot_be_verified(path: Path) -> None:
    with SqliteSaver.from_conn_string(str(path)) as saver:
        talk(saver, Never, 2)
    assert set(agreed(path)) == {"unverifiable"}
    report = ckpt("-s", path, "replay", "t", "--verify", "-o", "json").json
    assert (report["match"], report["unverifiable"]) == (2, 4)
    assert {one["reason"] for one in report["findings"]} == {
        "a DeltaChannel stores no value between snapshots"
    }
    assert ckpt("-s", path, "replay", "t", "--all-steps").out.count("unverifiable") == 4
    with sqlite3.connect(path) as db:
        db.execute(
            "DELETE FROM writes WHERE rowid = (SELECT max(rowid) FROM writes"
            " WHERE channel = 'messages')"
        )
    assert sorted(agreed(path)) == ["mismatch", *["unverifiable"] * 3]


def test_a_thread_without_any_change_says_so(path: Path) -> None:
    class Empty(TypedDict, total=False):
        note: str

    run(path, chain(Empty, {"run": lambda _: None}), {})
    ckpt("-s", path, "replay", "t", code=0, says="nothing to verify")


@cases("era", "lg-0.2.14-json", pytest.param("lg-0.2.14", marks=pytest.mark.nightly))
def test_a_thread_of_an_older_release_that_goes_on(era: str, tmp_path: Path) -> None:
    """A later release takes a stored None for a value, which format 1 does not."""
    path = copy_store(FIXTURES / era / "store.db", tmp_path)
    scenario = SCENARIOS["subgraph"]
    with SqliteSaver.from_conn_string(str(path)) as saver:
        run = ScenarioRun(scenario.build(saver), scenario.thread_config(), {"durability": "sync"})
        scenario.drive(run)
    report = ckpt("-s", path, "replay", "subgraph", "--verify", "-o", "json")
    assert (report.code, report.json["mismatch"]) == (0, 0)
    deep = ckpt("-s", path, "doctor", "subgraph", "--deep", "--grace", "0s", "-o", "json")
    assert deep.json["findings"] == []


def test_threads_are_judged_together_as_by_replay_all(path: Path) -> None:
    """One short thread does not tell its reducers; those beside it do."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        for name in ("one", "two"):
            planting.talk(saver, name)
        planting.talk(saver, "short", turns=1)
    with sqlite3.connect(path) as db:
        where = "WHERE checkpoint_id = (SELECT max(checkpoint_id) FROM checkpoints)"
        ((data,),) = db.execute(f"SELECT checkpoint FROM checkpoints {where}").fetchall()
        body = planting.SERDE.loads_typed(("msgpack", data))
        body["channel_values"]["mood"] = "other"
        stored = planting.SERDE.dumps_typed(body)[1]
        db.execute(f"UPDATE checkpoints SET checkpoint = ? {where}", [stored])
    assert ckpt("-s", path, "replay", "short", "--verify", "-o", "json").json["mismatch"] == 0
    everywhere = ckpt("-s", path, "replay", "--all", "--verify", "-o", "json", code=1)
    assert {one["thread_id"]: one["mismatch"] for one in everywhere.json} == {
        **dict.fromkeys(("one", "two"), 0),
        "short": 1,
    }
    assert {place[0] for place in diagnosed(path)} == {"short"}
    words = ("doctor", "--deep", "--grace", "0s", "-o", "json")
    several = ckpt("-s", path, *words, "--jobs", "2").json["findings"]
    assert several == ckpt("-s", path, *words).json["findings"]
    assert [(one["code"], one["channel"]) for one in several] == [("state-mismatch", "mood")]
    one = ckpt("-s", path, "doctor", "short", *words[1:]).json["findings"]
    assert one == []


# What is said of a mismatch


class Ticks(TypedDict):
    log: Annotated[list[dict[str, Any]], operator.add]


def tick(state: Ticks) -> Any:
    number = len(state["log"])
    return {"log": [{"note": f"tick {n}"} for n in range(number, number + 50)]}


@pytest.fixture
def forged(path: Path) -> tuple[Path, str]:
    """A long list in which one text was changed in the newest checkpoint, and that one's id."""
    run(path, chain(Ticks, {"tick": tick}), *[{"log": []}] * 3)
    with closing(sqlite3.connect(path)) as db, db:
        rows = Rows(db)
        step, head = max(rows.ids().items())
        rows.body(step, lambda values: values["log"][149].update(note="tick 999"))
    return path, head


WHERE = '[149].note: "tick 149" ≠ "tick 999"'


def test_where_a_value_differs_is_said(forged: tuple[Path, str]) -> None:
    path, head = forged
    shown = ckpt("-s", path, "diff", "--writes", f"t@{head}", "-o", "table")
    assert f"differs {WHERE}" in shown.out
    told = ckpt("-s", path, "diff", "--writes", f"t@{head}", "-o", "json").json["channels"]["log"]
    place = {"op": "replace", "path": "[149].note", "rebuilt": "tick 149", "stored": "tick 999"}
    assert (told["verdict"], told["differences"]) == ("mismatch", {"places": [place], "more": 0})
    shown = ckpt("-s", path, "replay", "t", "--verify", "-o", "table", code=1)
    assert f"stored value differs from what append produces: {WHERE}" in shown.out
    look = f"`ckpt -s {path} diff --writes t@{head}` shows the first difference"
    assert look in shown.err
    ckpt("-s", path, "replay", "t", "--verify", "--all-steps", code=1)
    plain = ckpt("-s", path, "replay", "t", "-o", "table")
    assert (plain.code, plain.out, look in plain.err) == (0, shown.out, True)
    steps = ckpt("-s", path, "replay", "t", "--all-steps", "-o", "json").json
    (row,) = [one for one in steps if one["verdict"] == "mismatch"]
    assert (row["child"], row["differences"]["places"]) == (head, [place])


@cases("words", ["replay", "t"], ["replay", "t", "--all-steps"], ["diff", "--writes", "t"])
def test_no_value_is_told_with_redaction(forged: tuple[Path, str], words: list[str]) -> None:
    answer = ckpt("-s", forged[0], "--redact", *words, "-o", "json")
    assert "mismatch" in answer.out
    assert "tick 999" not in answer.out
    assert "tick 149" not in answer.out


def test_strict_fails_on_what_cannot_be_verified(sample: Path) -> None:
    with sqlite3.connect(sample) as connection:
        connection.execute("DELETE FROM writes WHERE thread_id = 'refund-4711'")
    ckpt("-s", sample, "replay", "refund-4711", "--verify", code=0)
    report = ckpt("-s", sample, "replay", "refund-4711", "--strict", "-o", "json")
    assert (report.code, report.json["mismatch"], report.json["unverifiable"] > 0) == (1, 0, True)
    for words in (["--all"], ["--match", "refund*"]):
        ckpt("-s", sample, "replay", *words, "--verify", code=0)
        ckpt("-s", sample, "replay", *words, "--strict", code=1)
    ckpt("-s", sample, "replay", "trip-to-kyoto", "--strict", code=0)


LATER = """FROM writes AS w WHERE thread_id = ? AND channel NOT LIKE '\\_\\_%' ESCAPE '\\'
    AND EXISTS (SELECT 1 FROM checkpoints AS c WHERE c.parent_checkpoint_id = w.checkpoint_id
        AND c.thread_id = w.thread_id AND c.checkpoint_ns = w.checkpoint_ns)"""


@pytest.mark.in_ci("subgraph", "async")
@pytest.mark.parametrize(
    "thread", first_now(["alice@example.com", "subgraph", "reducers", "async-join"])
)
def test_a_write_taken_out_of_a_step_of_format_1_is_found(thread: str, tmp_path: Path) -> None:
    path = copy_store(FIXTURES / "lg-0.2.14" / "store.db", tmp_path)
    ckpt("-s", path, "replay", thread, "--verify", code=0)
    silent = []
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute(f"SELECT rowid, channel {LATER}", (thread,)).fetchall()
        assert len(rows) > 3
        for rowid, channel in rows:
            db.execute("CREATE TEMP TABLE gone AS SELECT * FROM writes WHERE rowid = ?", (rowid,))
            db.execute("DELETE FROM writes WHERE rowid = ?", (rowid,))
            db.commit()
            if not ckpt("-s", path, "replay", thread, "--strict", "-o", "json").json["findings"]:
                silent.append(channel)
            db.execute("INSERT INTO writes SELECT * FROM gone")
            db.execute("DROP TABLE gone")
            db.commit()
    assert silent == []


def test_a_reducer_of_an_unknown_channel_and_an_unknown_reducer_are_refused(sample: Path) -> None:
    for words in (["replay"], ["diff", "--writes"]):
        run: list[str | Path] = ["-s", sample, *words, "trip-to-kyoto", "--reducer"]
        answer = ckpt(*run, "mesages=append", code=3, out="", says="no channel 'mesages'")
        assert "did you mean 'messages'" in answer.err
        answer = ckpt(*run, "messages=apend")
        assert (answer.code, "no reducer 'apend' for channel 'messages'" in answer.err) == (2, True)
        assert "did you mean 'append'" in answer.err
        ckpt(*run, "messages=add_messages", code=0)
    ckpt("-s", sample, "replay", "--all", "--reducer", "mesages=append", code=3)
    ckpt("-s", sample, "replay", "--all", "--reducer", "messages=add_messages", code=0)


def test_any_order_of_the_writes_between_two_snapshots_may_be_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run of LangGraph.js takes them as its saver returns them, in whatever order."""
    path = copy_store(FIXTURES / "js-1.7.3" / "store.db", tmp_path)
    with closing(sqlite3.connect(path)) as db:

        def write(text: str, other: str) -> None:
            where = "thread_id = 'delta-often' AND channel = 'items' AND value = ?"
            rows = (f'["{other}"]'.encode(), f'["{text}"]'.encode())
            assert db.execute(f"UPDATE writes SET value = ? WHERE {where}", rows).rowcount == 1
            db.commit()

        for pair in (("left 7", "?"), ("right 7", "left 7"), ("?", "right 7")):
            write(*pair)
        words = ("-s", path, "replay", "delta-often", "--verify", "-o", "json")
        swapped = ckpt(*words)
        assert (swapped.code, swapped.json["mismatch"], swapped.json["assumed"]) == (0, 0, 1)
        write("right 7", "other")
        ckpt(*words, code=1)
        for bound in ("_PERMUTED_TASKS", "_KEPT_ORDERS"):
            with monkeypatch.context() as patch:
                patch.setattr(f"ckpt_cli.core.replay.{bound}", 1)
                unsure = ckpt(*words)
            reasons = {one["reason"] for one in unsure.json["findings"] if one["step"] == 10}
            assert "the order of the writes since its last snapshot is not stored" in reasons
            assert unsure.code == 0


def test_without_paths_the_next_run_may_take_parallel_writes_in_any_order(tmp_path: Path) -> None:
    path = copy_store(FIXTURES / "lg-1.2.22" / "store.db", tmp_path)
    left, right = ormsgpack.packb(["left 7"]), ormsgpack.packb(["right 7"])
    swap = """UPDATE writes SET value = CASE value WHEN :left THEN :right ELSE :left END
        WHERE thread_id = 'delta-often' AND channel = 'items' AND value IN (:left, :right)"""
    words = ("-s", path, "replay", "delta-often", "--verify", "-o", "json")
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert db.execute(swap, {"left": left, "right": right}).rowcount == 2
        assert ckpt(*words, code=1).json["mismatch"] == 1
        db.execute("UPDATE writes SET task_path = '' WHERE thread_id = 'delta-often'")
        report = ckpt(*words, code=0).json
        assert (report["mismatch"], report["assumed"]) == (0, 1)
