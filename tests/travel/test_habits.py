"""Rollbacks as people do them: in pipes, twice, with empty variables, while an agent runs."""

import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from ckpt_backends.changes import Change
from ckpt_backends.errors import StoreChanged, StoreUnavailable
from ckpt_backends.model import Checkpoint, make_id
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.testing.official import ScenarioStore, config_of
from ckpt_backends.url import parse_url
from ckpt_cli.plans.fork import RollbackOptions, plan_fork_to_thread
from ckpt_cli.reading.thread import ThreadReader
from tests.kit.agents.small import Log, beside, chain, run, running, saver_of
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, CommandResult, apply_change, ckpt
from tests.kit.rows import rows_of


@contextmanager
def agent(path: Path) -> Iterator[Any]:
    """A graph that asks in its second node; `z` is only reached by a goto."""
    nodes = {"a": lambda _: {"log": ["a"]}, "b": lambda _: {"log": [f"b:{interrupt('go on?')}"]}}
    with running(path, chain(Log, nodes).add_node("z", lambda _: {"log": ["z"]})) as graph:
        yield graph


def config(thread_id: str, **more: Any) -> Any:
    return {"configurable": {"thread_id": thread_id}, **more}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "agent.db"
    with agent(path) as graph:
        graph.invoke({"log": ["in"]}, config("t", metadata={"reason": "app-own"}))
    return path


def test_a_step_back_from_a_copy_is_a_step_back_from_its_original(store: Path) -> None:
    first = ckpt("-s", store, "rollback", "t", "--steps", "1", "--yes", "-o", "json").json
    second = ckpt("-s", store, "rollback", "t", "--steps", "1", "--yes", "-o", "json").json
    with open_store(str(store)) as opened:
        found = opened.checkpoints("t")
        parents = {one.key.checkpoint_id: one.parent_checkpoint_id for one in found}
    assert second["forked_from"] == parents[first["forked_from"]]


def test_a_copy_is_as_it_was_planned_while_the_agent_goes_on(store: Path) -> None:
    with open_store(str(store)) as opened:
        reader = ThreadReader(opened, "t")
        made = plan_fork_to_thread(
            reader, opened, reader.head("") or "", "u", RollbackOptions(fork=True)
        )
    with agent(store) as graph:
        graph.invoke(Command(resume="late"), config("t"))
    with open_writable(parse_url(str(store))) as writable:
        writable.apply(made.change)
    with agent(store) as graph:
        assert [one.value for one in graph.get_state(config("u")).interrupts] == ["go on?"]
        assert graph.get_state(config("u")).values["log"] == ["in", "a"]
    ckpt("-s", store, "undo", "u", "--yes", code=0)
    with open_store(str(store)) as opened:
        assert opened.thread("u") is None


def test_left_over_rows_of_the_new_name_are_not_taken_over(store: Path) -> None:
    ckpt("-s", store, "copy", "t@head", "--as", "u", "--yes", code=0)
    with closing(sqlite3.connect(store)) as db, db:
        db.execute("DELETE FROM checkpoints WHERE thread_id = 'u'")
    ckpt("-s", store, "copy", "t@head", "--as", "u", "--yes", code=5, says="orphaned rows")


def test_as_node_leaves_out_where_the_caller_wanted_to_go(store: Path) -> None:
    with agent(store) as graph:
        graph.invoke(Command(goto="z", update={"log": ["upd"]}), config("t"))
    answer = ckpt("-s", store, "fork", "t", "head", "--as-node", "a", "--yes", "-o", "json").json
    with agent(store) as graph:
        graph.invoke(None, {"configurable": answer["configurable"]})
        assert graph.get_state(config("t")).values["log"] == ["in", "a", "upd"]


def copy(filled: ScenarioStore, *words: str) -> CommandResult:
    return ckpt("-s", filled.harness.url, "copy", *words, "--yes", "-o", "json")


def test_calls_from_the_target_itself_are_not_copied(filled: ScenarioStore) -> None:
    """They come after the target; only calls on the way to it are copied."""
    name = "subgraph-twice"

    def callers(thread_id: str) -> set[str]:
        found = filled.saver.list({"configurable": {"thread_id": thread_id}})
        return {one.metadata["parents"][""] for one in found if one.metadata.get("parents")}

    targets = filled.ids(name)[1:]
    known = callers(name)
    assert known & {*targets}
    for target in targets:
        assert copy(filled, name, "--at", target, "--as", f"to {target}").code == 0
        assert callers(f"to {target}") == {one for one in known if one < target}


def test_a_copy_that_was_used_is_a_thread_of_its_own(filled: ScenarioStore) -> None:
    thread = filled.thread("linear")
    assert copy(filled, "linear@head", "--as", "ours").code == 0
    thread.graph(filled.saver).invoke(thread.first_input, config_of("ours"))
    ckpt("-s", filled.harness.url, "undo", "ours", "--yes", code=5, says="has been used since")


class Booking(TypedDict, total=False):
    hotel: str
    paid: bool
    sure: str


def test_an_edited_copy_of_the_head_runs_nothing_twice(filled: ScenarioStore) -> None:
    """Which a copy that is forked afterwards would: a fork runs the whole step again."""
    ran: Counter[str] = Counter()

    def pay(_: Booking) -> Booking:
        ran["pay"] += 1
        return {"paid": True}

    def ask(state: Booking) -> Booking:
        return {"sure": f"{state['hotel']}: {interrupt('sure?')}"}

    builder: Any = StateGraph(Booking)
    builder.add_node("pay", pay).add_node("ask", ask)
    builder.add_edge(START, "pay").add_edge(START, "ask")
    graph = builder.compile(checkpointer=filled.saver)
    store, new = filled.harness.url, ("--replace", 'hotel="Ryokan"', "--yes")
    graph.invoke({"hotel": "Kanra"}, config_of("booking"))
    (asked,) = graph.get_state(config_of("booking")).interrupts
    ckpt("-s", store, "fork", "booking", *new, "--as", "edited", code=0)
    ended = graph.invoke(Command(resume={asked.id: "yes"}), config_of("edited"))
    assert (ended["sure"], ended["paid"], ran["pay"]) == ("Ryokan: yes", True, 1)
    assert graph.get_state(config_of("booking")).values["hotel"] == "Kanra"

    assert copy(filled, "booking@head", "--as", "twice").code == 0
    assert ckpt("-s", store, "fork", "twice", "head", *new, "-o", "json").json["again"] == ["pay"]
    graph.invoke(Command(resume="yes"), config_of("twice"))
    assert ran["pay"] == 2


def test_a_copy_of_a_thread_has_every_branch(filled: ScenarioStore) -> None:
    graph = filled.thread("linear").graph(filled.saver)

    def history(thread_id: str) -> list[Any]:
        rows = filled.saver.list(config_of(thread_id))
        return [(one.checkpoint, one.metadata, one.pending_writes) for one in rows]

    filled.harness.copy("linear", "ours")
    ckpt("-s", filled.harness.url, "rollback", "ours", "~1", "--yes", code=0)
    done = copy(filled, "ours", "--as", "{thread}-2").json
    assert done["copied_from"] == "ours"
    assert history("ours-2") == history("ours")
    assert done["checkpoints"] == len(history("ours"))
    assert graph.get_state(config_of("ours-2")).next == graph.get_state(config_of("ours")).next


THREAD = "anna@example.com"
CONFIG: Any = {"configurable": {"thread_id": THREAD}}


def moment_before(created_at: str) -> str:
    return (datetime.fromisoformat(created_at) - timedelta(microseconds=1)).isoformat()


def test_a_time_finds_and_bounds_what_was_made_then(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    nodes = {name: lambda _, name=name: {"log": [name]} for name in "abc"}
    with running(path, chain(Log, nodes)) as graph:
        for text in ("one", "two"):
            graph.invoke({"log": [text]}, CONFIG)
        snapshots = [
            (one.created_at, one.config["configurable"]["checkpoint_id"])
            for one in graph.get_state_history(CONFIG)
        ]

    def answer(*words: str) -> Any:
        return ckpt("-s", path, *words, "-o", "json").json

    assert len(snapshots) == 10
    for created_at, checkpoint_id in snapshots:
        for words in ([THREAD, "--as-of", created_at], [f"{THREAD}@{created_at}"]):
            assert answer("show", *words)["checkpoint_id"] == checkpoint_id
    for (_, before), (created_at, _) in zip(snapshots[1:], snapshots, strict=False):
        shown = answer("show", THREAD, "--as-of", moment_before(created_at))
        assert shown["checkpoint_id"] == before

    last = snapshots[0][0]
    for words, number in ((["--until", last], 1), (["--since", last], 1)):
        assert len(answer("threads", "list", *words)) == number
    assert answer("threads", "list", "--until", moment_before(last)) == []
    whole, third = answer("stats", THREAD), answer("stats", THREAD, "--until", snapshots[2][0])
    assert answer("stats", THREAD, "--until", last)["nodes"] == whole["nodes"] != third["nodes"]


HEAD = "trip-to-kyoto"


def refused(store: Path | str, *words: str) -> CommandResult:
    answer = ckpt("-s", store, *words, out="")
    assert "Traceback" not in answer.err
    return answer


WRONG = [
    (2, ["rollback", f"{HEAD}@head", "--last-good"], "names a checkpoint already"),
    (2, ["rollback", HEAD, "--to-last", "sleepy"], "'sleepy' is not one of 'error'"),
    (2, ["rollback", HEAD, "--at", "", "--yes"], "REF is empty"),
    (2, ["rollback", HEAD, "~1", "--yes", "--reason", "\udcff bad"], "it is not UTF-8"),
    (2, ["fork", "refund-4711", "head", "--set", 'order=["\\ud800"]', "--yes"], "'order'"),
    (2, ["--copy", "rollback", HEAD, "~1", "--yes"], "without --copy"),
    (2, ["copy", HEAD, "--at", "head", "--as", "", "--yes"], "the new thread id is empty"),
    (2, ["copy", HEAD, "--as", "n", "--to", "n.db"], "first `ckpt copy THREAD --as NEW`, then"),
    (2, ["copy", HEAD, "--as", "n", "--create"], "--create cannot be combined with --as NEW"),
    (2, ["copy", HEAD, "--to", "n.db", "--at", "~1"], "--at cannot be combined with --to STORE"),
    (2, ["copy", HEAD, "--at", "~1", "--as-of", "2h", "--as", "n"], "--at cannot be combined"),
    (2, ["copy", HEAD, "step:3", "--as", "n"], "a checkpoint is THREAD@REF"),
    (2, ["copy", "--match", "*", "--as", "{thread}-2"], "no checkpoint given"),
    (2, ["copy", HEAD, "--set", "a=1", "--as", "n"], "use `ckpt fork THREAD@REF --set"),
    (2, ["fork", HEAD, "head", "--as", "n"], "use `ckpt copy THREAD@REF --as NEW`"),
    (2, ["threads", "copy", HEAD, "n"], "use `ckpt copy THREAD --as NEW`"),
    (3, ["rollback", HEAD, "--to-last", "error"], "has status error"),
    (3, ["rollback", HEAD, "--last-good"], "no step failed"),
    (2, ["rollback", HEAD, "--steps", "1", "--reopen"], "--steps cannot be combined"),
    (3, ["rollback", HEAD, "zzzz"], "newest first:"),
    (3, ["rollback", HEAD, "--as-of", "2020-01-01"], "had no checkpoint"),
]


@pytest.mark.parametrize(("code", "words", "says"), WRONG, ids=[" ".join(one[1]) for one in WRONG])
def test_wrong_words(sample: Path, code: int, words: list[str], says: str) -> None:
    before = sample.read_bytes()
    answer = refused(sample, *words)
    assert (answer.code, says in answer.err) == (code, True), answer.err
    assert sample.read_bytes() == before


def test_targets_by_what_happened(sample: Path) -> None:
    def target(*words: str) -> Any:
        return ckpt("-s", sample, "rollback", *words, "--dry-run", "-o", "json").json["forked_from"]

    ids = [one["checkpoint_id"] for one in ckpt("-s", sample, "history", HEAD, "-o", "json").json]
    assert target(HEAD, "--steps", "1") == ids[1]
    assert target(f"{HEAD}@head~1") == target(HEAD, "--at", "~1") == ids[1]
    done = target(HEAD, "--to-last", "done")
    assert ckpt("-s", sample, "show", HEAD, "--at", done, "-o", "json").json["next"] == []
    assert done != ids[0]
    failed = "invoice-import"
    head = ckpt("-s", sample, "show", failed, "-o", "json").json["checkpoint_id"]
    assert target(failed, "--last-good") == head
    assert target(failed, "--as-of", "now") == head
    for store, thread, code, said in (
        ("lg-1.2.22", "error-handled", 3, "no step failed"),
        ("lg-0.2.70", "error", 0, "the last step that failed is step 2"),
    ):
        words = ("rollback", thread, "--last-good", "--dry-run")
        ckpt("-s", FIXTURES / store / "store.db", *words, code=code, says=said)


def test_what_cannot_be_written_to(sample: Path) -> None:
    execute(sample, "UPDATE checkpoints SET type = 'msgpack+aes'")
    before = sample.read_bytes()
    answer = refused(sample, "rollback", "nightly-report", "tip:0", "--yes")
    assert (answer.code, "cannot" in answer.err) == (4, True), answer.err
    assert sample.read_bytes() == before


def execute(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement, values)


@cases("store thread", ("lg-0.2.70", "async-linear"), ("js-1.7.3", "linear"))
def test_where_a_node_leads_is_not_guessed_in_other_formats(store: str, thread: str) -> None:
    words = ("fork", thread, "head", "--as-node", "think", "--dry-run")
    ckpt("-s", FIXTURES / store / "store.db", *words, code=4, says="cannot use --as-node")


def test_a_sibling_that_gives_a_subgraph_its_older_memory_says_so(path: Path) -> None:
    inner = chain(Log, {"first": lambda _: {"log": ["first"]}}).compile(checkpointer=True)
    nodes = {"o": inner, "mid": lambda _: {"log": ["mid"]}, "fin": lambda _: {"log": ["fin"]}}
    with running(path, chain(Log, nodes)) as graph:
        graph.invoke({"log": []}, config("t"))
    for ref, more, is_said in (
        ("~2", ["--sibling"], True),
        ("~1", ["--sibling"], False),
        ("~3", ["--sibling"], False),
        ("~2", [], False),
    ):
        plan = ckpt("-s", path, "rollback", "t", ref, *more, "--dry-run", "-o", "json").json
        said = "the subgraph 'o' ran in the step before the target"
        assert any(said in note for note in plan["notes"]) is is_said


def test_opening_for_a_change_makes_and_alters_nothing(sample: Path, tmp_path: Path) -> None:
    missing = tmp_path / "mistyped.db"
    with pytest.raises(StoreUnavailable):
        open_writable(parse_url(str(missing)))
    assert not missing.exists()
    before = sample.read_bytes()
    store = open_writable(parse_url(str(sample)))
    store.close()
    store.close()
    assert sample.read_bytes() == before
    with pytest.raises(StoreUnavailable):
        store.apply(Change("t", {}))


def test_a_change_that_fails_at_its_end_leaves_nothing(sample: Path) -> None:
    """The second of two checkpoints is there already."""
    whole, heads = head_of(sample)
    leaves_nothing(
        sample, Change(HEAD, heads, checkpoints=(with_a_new_id(whole).record(), whole.record()))
    )


def test_a_checkpoint_that_is_relied_on_must_still_be_there(sample: Path) -> None:
    whole, heads = head_of(sample)
    gone = whole.key._replace(checkpoint_id=make_id(1, 1, 1))
    change = Change(
        HEAD, heads, checkpoints=(with_a_new_id(whole).record(),), relied_on=(whole.key, gone)
    )
    leaves_nothing(sample, change, gone.checkpoint_id)
    apply_change(str(sample), replace(change, relied_on=(whole.key,)))
    assert head_of(sample)[1] != heads


def test_a_checkpoint_is_not_taken_back_with_writes_that_came_since(sample: Path) -> None:
    before, (_, heads) = rows_of(sample), head_of(sample)
    with open_store(str(sample)) as store:
        ((key, number), *_) = Counter(one.key for one in store.writes(HEAD)).items()
    leaves_nothing(sample, Change(HEAD, heads, removed={key: number - 1}))
    apply_change(str(sample), Change(HEAD, heads, removed={key: number}))
    assert rows_of(sample) < before


@pytest.mark.parametrize("ns", ["checkpoint_ns", "'helper:1'"])
def test_a_checkpoint_that_comes_within_the_transaction_is_seen(sample: Path, ns: str) -> None:
    """SQLite locks the file, so a trigger stands for an agent of an engine that does not."""
    whole, heads = head_of(sample)
    new = with_a_new_id(whole)
    execute(
        sample,
        "CREATE TRIGGER agent AFTER INSERT ON checkpoints WHEN NEW.checkpoint_id ="
        f" '{new.key.checkpoint_id}' BEGIN INSERT INTO checkpoints SELECT thread_id,"
        f" {ns}, checkpoint_id || '-agent', parent_checkpoint_id, type, checkpoint,"
        " metadata FROM checkpoints WHERE checkpoint_id = NEW.checkpoint_id; END",
    )
    leaves_nothing(sample, Change(HEAD, heads, checkpoints=(new.record(),)))


def leaves_nothing(sample: Path, change: Change, why: str = "") -> None:
    """Check that a change is refused as one of a thread that moved, and writes no row."""
    before = rows_of(sample)
    with pytest.raises(StoreChanged, match=why):
        apply_change(str(sample), change)
    assert rows_of(sample) == before


def head_of(sample: Path) -> tuple[Checkpoint, dict[str, str]]:
    with open_store(str(sample)) as store:
        heads = {
            ns: next(store.checkpoints(HEAD, checkpoint_ns=ns)).key.checkpoint_id
            for ns in store.namespaces(HEAD)
        }
        return next(store.checkpoints(HEAD, checkpoint_ns="", body=True, metadata=True)), heads


def with_a_new_id(one: Checkpoint) -> Checkpoint:
    return one._replace(key=one.key._replace(checkpoint_id=make_id(1 << 58, 1, 1)))


# What a plan tells a person, and whether it is so

SHOP: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    plan: str
    approved: bool
    paid: bool
    log: Annotated[list[str], list.__add__]


class Shop:
    """A graph that plans, asks, pays and reports; a node fails while it is in `failing`."""

    def __init__(self, saver: SqliteSaver) -> None:
        self.failing: set[str] = set()
        self.ran: list[str] = []
        builder = chain(State, {"think": self._node("think", plan="buy"), "ask": self._ask})
        builder.add_node("pay", self._node("pay", paid=True)).add_node("note", self._node("note"))
        builder.add_node("report", self._node("report"))
        builder.add_edge("ask", "pay").add_edge("ask", "note")
        builder.add_edge(["pay", "note"], "report")
        self.graph = builder.compile(checkpointer=saver)

    def _node(self, name: str, **values: Any) -> Any:
        def run(_: State) -> dict[str, Any]:
            self.ran.append(name)
            if name in self.failing:
                time.sleep(0.1)  # what runs beside it ends first
                raise ConnectionError(f"{name} is down")
            return {**values, "log": [name]}

        return run

    def _ask(self, _: State) -> dict[str, Any]:
        self.ran.append("ask")
        return {"approved": interrupt("pay 40?") == "yes", "log": ["ask"]}

    def run(self, given: Any, **options: Any) -> None:
        with suppress(ConnectionError):
            self.graph.invoke(given, SHOP, **options)

    def head(self) -> str:
        found = self.graph.get_state_history(SHOP)
        return max(str(one.config["configurable"]["checkpoint_id"]) for one in found)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@pytest.fixture
def shop(path: Path) -> Iterator[Shop]:
    with saver_of(path) as saver:
        yield Shop(saver)


def plan(path: Path, *words: str) -> CommandResult:
    return ckpt("-s", path, *words, "--dry-run", code=0)


def field(answer: CommandResult, name: str) -> list[str]:
    """What a plan says under a label."""
    return [line[9:] for line in answer.out.splitlines() if line[:9].strip() == name]


def fail_at_pay(shop: Shop) -> None:
    shop.failing = {"pay"}
    shop.run({"log": []})
    shop.run(Command(resume="yes"))
    shop.failing = set()


def test_last_good_does_not_ask_an_answered_question_again(shop: Shop, path: Path) -> None:
    fail_at_pay(shop)
    head = shop.head()
    answer = ckpt("-s", path, "rollback", "t", "--last-good", "--yes", "-o", "json")
    assert answer.json["forked_from"] == head
    assert "the last step that failed is step 3 (pay)" in answer.err
    assert (sorted(answer.json["next"]), answer.json["asked"]) == (["note", "pay"], [])
    assert answer.json["again"] == ["note"]
    shop.ran.clear()
    shop.run(None)
    assert sorted(shop.ran) == ["note", "pay", "report"]
    state = shop.graph.get_state(SHOP)
    assert state.values["paid"] is True
    assert state.next == ()


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_reopen_asks_the_last_question_again(shop: Shop, path: Path, durability: str) -> None:
    shop.run({"log": []}, durability=durability)
    none = ckpt("-s", path, "rollback", "t", "--reopen", "--dry-run")
    assert (none.code, "no question was answered" in none.err) == (3, True)
    asked = shop.head()
    shop.run(Command(resume="yes"), durability=durability)
    # The question of this input is not answered: another input comes instead.
    shop.run({"log": []}, durability=durability)
    shop.run({"log": []}, durability=durability)
    assert plan(path, "rollback", "t", "--reopen", "-o", "json").json["forked_from"] == asked
    shown = plan(path, "rollback", "t", "--reopen")
    (asks,) = field(shown, "asks")
    assert asks.endswith(": pay 40?")
    assert "the last question that was answered is that of ask in step 2" in shown.err
    hidden = ckpt("-s", path, "--redact", "rollback", "t", "--reopen", "--dry-run")
    assert "pay 40?" not in hidden.out + hidden.err
    done = ckpt("-s", path, "rollback", "--match", "*", "--reopen", "--yes", "-o", "ndjson")
    assert done.json["configurable"]["thread_id"] == "t"
    shop.run(None)
    (question,) = shop.graph.get_state(SHOP).interrupts
    assert question.value == "pay 40?"
    shop.run(Command(resume="no"))
    state = shop.graph.get_state(SHOP)
    assert (state.values["approved"], state.next) == (False, ())


def test_reopen_names_no_question_before_which_the_node_asked_another(path: Path) -> None:
    ask = {"ask": lambda _: {"log": [interrupt("first?"), interrupt("second?")]}}
    run(path, chain(State, ask), {"log": []}, Command(resume="one"))
    assert field(plan(path, "rollback", "t", "--reopen"), "asks") == ["ask will ask again"]


def test_last_good_finds_a_failure_behind_a_question_of_a_subgraph(path: Path) -> None:
    asked = Event()

    class Telling(SqliteSaver):
        """A saver that tells when the question of the root is stored."""

        def put_writes(self, config: Any, writes: Any, *more: Any) -> None:
            super().put_writes(config, writes, *more)
            if not config["configurable"]["checkpoint_ns"] and writes[0][0] == "__interrupt__":
                asked.set()

    def pay(_: State) -> dict[str, Any]:
        assert asked.wait(60)
        raise ConnectionError("down")

    review = chain(State, {"leaf": lambda _: {"approved": interrupt("sure?")}}).compile()
    with saver_of(path) as saver:
        agent = beside(State, {"review": review, "pay": pay}).compile(
            checkpointer=Telling(saver.conn)
        )
        with pytest.raises(ConnectionError):
            agent.invoke({"log": []}, SHOP)
        head = agent.get_state(SHOP).config["configurable"]["checkpoint_id"]
    answer = plan(path, "rollback", "t", "--last-good", "-o", "json").json
    assert (answer["forked_from"], answer["asked"]) == (head, ["review"])
    ckpt("-s", path, "fork", "t", "head", "--yes", code=0)
    for status in ("error", "interrupted"):
        last = plan(path, "rollback", "t", "--to-last", status, "-o", "json").json
        assert last["forked_from"] == head
    ckpt("-s", path, "undo", "t", "--yes", code=0)
    text = plan(path, "rollback", "t", "--last-good")
    (now,) = field(text, "now")
    assert now.endswith(", error at pay, interrupted at review > leaf")
    assert field(text, "error") == ["pay: ConnectionError('down')"]
    assert field(text, "question") == ["review > leaf: sure?"]
    assert field(text, "asks") == ["review > leaf will ask again"]


def test_a_plan_tells_what_is_wrong_and_what_would_happen(shop: Shop, path: Path) -> None:
    fail_at_pay(shop)
    states = list(shop.graph.get_state_history(SHOP))
    asked = next(one for one in states if one.next == ("ask",))
    ref = asked.config["configurable"]["checkpoint_id"]
    text = plan(path, "rollback", "t", ref)
    (now,) = field(text, "now")
    assert now.endswith("step 2, error at pay")
    assert field(text, "error") == ["pay: ConnectionError('pay is down')"]
    assert field(text, "next") == ["ask"]
    assert field(text, "repeats") == ["ask already ran; side effects will repeat"]
    assert field(text, "asks") == ["ask will ask again (the old answer is dropped): pay 40?"]
    assert field(text, "later") == ["note ran on the abandoned branch and may run again"]
    (kept,) = field(text, "keeps")
    assert kept.startswith("the abandoned branch (1 checkpoint up to ")
    assert kept.endswith(") with its error")
    (new,) = field(text, "new head")
    assert new.endswith(f", a copy of {field(text, 'back to')[0].partition(',')[0]}")
    assert "  approved: true → (none)" in text.out.splitlines()
    assert field(text, "undo") == [f"ckpt -s {path} undo t"]
    assert shop.graph.get_state(SHOP).values["approved"] is True
    ckpt("-s", path, "rollback", "t", ref, "--yes", code=0)
    assert "approved" not in shop.graph.get_state(SHOP).values


def test_the_printed_line_resumes_the_thread(shop: Shop, path: Path) -> None:
    shop.run({"log": []})

    def invoke(text: str, **names: Any) -> Any:
        return eval(text, {"graph": shop.graph, "Command": Command, **names})

    (text,) = field(ckpt("-s", path, "copy", "t", "--at", "head", "--as", "u", "--yes"), "resume")
    (asked,) = shop.graph.get_state({"configurable": {"thread_id": "u"}}).interrupts
    assert text.startswith(f'graph.invoke(Command(resume={{"{asked.id}": ...}}), {{')
    assert invoke(text.replace("...", '"yes"'))["paid"] is True
    shop.run(Command(resume="no"))
    (text,) = field(ckpt("-s", path, "rollback", "t", "step:0", "--yes"), "resume")
    assert text.startswith("graph.invoke(None, {")
    assert "__interrupt__" in invoke(text)
    shop.run(Command(resume="no"))
    (text,) = field(ckpt("-s", path, "fork", "t", "head", "--yes"), "resume")
    assert text.startswith("graph.invoke({...}, {")
    assert text.endswith("# with a new input: nothing is next")
    shop.ran.clear()
    invoke(text.replace("{...}", "given"), given={"log": ["again"]})
    assert shop.ran == ["think", "ask"]
