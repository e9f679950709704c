"""The handles and the commands give the same answers."""

import contextlib
import io
import json
import re
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime
from html import unescape
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

import pytest
import redis
from langgraph.types import interrupt
from textual.color import Color

import ckpt_cli
from ckpt_backends import codec
from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.errors import ParseError, UsageError
from ckpt_cli import Answer, AnswerList, CheckpointHandle, MemoryHandle, StoreHandle, ThreadHandle
from ckpt_cli.api.answer import plain, to_json
from ckpt_cli.render.report import STYLES
from ckpt_cli.tui.styles import contrast
from tests.kit.agents.small import beside, running
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, ROOT, SAMPLE, ckpt, copy_store
from tests.kit.memory.benches import ITEMS, SqliteBench, fill
from tests.kit.savers.deerflow import fact, make, memory
from tests.kit.savers.deerflow import save as save_memory
from tests.kit.savers.redis_threads import ContextState, fill_plain, save

TRIP, REFUND, RESEARCH = "trip-to-kyoto", "refund-4711", "research-agent"
Ask: TypeAlias = Callable[[StoreHandle], Any]


def trip(ask: Callable[[ThreadHandle], Any]) -> Ask:
    return lambda store: ask(store[TRIP])


def third(ask: Callable[[CheckpointHandle], Any]) -> Ask:
    return lambda store: ask(store.at(f"{TRIP}@step:3"))


def replayed(checkpoint: CheckpointHandle) -> Any:
    return checkpoint.replay({"messages": "append"})


ANSWERS: list[tuple[str, Ask]] = [
    (f"show {TRIP}", trip(lambda t: t.head.to_dict())),
    (f"show {TRIP}@step:3 --channel messages", third(lambda t: t.show(["messages"]))),
    (
        f"show {TRIP} --path messages[-1].content",
        trip(lambda t: ckpt_cli.to_json(t.head.get("messages[-1].content"))),
    ),
    (f"show {TRIP} --tree --all-ns", trip(lambda t: map(listed, t.history(all_ns=True)))),
    (f"history {TRIP} -n 3", trip(lambda t: map(listed, t.history(limit=3)))),
    (f"diff {TRIP} step:3 step:7", trip(lambda t: t["step:7"].diff(t["step:3"]))),
    (f"diff --writes {TRIP}@step:3", third(lambda t: t.diff_writes())),
    (f"blame {TRIP}@step:3 messages[-1]", third(lambda t: t.blame("messages[-1]"))),
    (f"messages {TRIP}", trip(lambda t: t.head.messages)),
    (f"messages {TRIP} --stat", trip(lambda t: t.head.message_stats())),
    (
        f"interrupts {REFUND} {TRIP} --older-than 0s",
        lambda s: s.interrupts([REFUND, TRIP], older_than="0s"),
    ),
    (f"interrupts {REFUND}", lambda s: s[REFUND].interrupts()),
    (
        "grep -F Kyoto --match t* --channel messages --channel hotel",
        lambda s: s.grep("Kyoto", fixed=True, match="t*", channels=["messages", "hotel"]),
    ),
    (f"grep Kyoto {TRIP} --head-only", trip(lambda t: t.grep("Kyoto", head_only=True))),
    ("stats --match r* --since 2020-01-01", lambda s: s.stats(match="r*", since="2020-01-01")),
    (f"stats {TRIP} --ns planner", trip(lambda t: t.stats(ns="planner"))),
    ("stats --by user,day --jobs 2", lambda s: s.stats(by=["user", "day"])),
    (f"timeline {TRIP} --last 3", trip(lambda t: t.timeline(last=3))),
    ("du", lambda s: s.du()),
    (f"du {TRIP} --top 2", trip(lambda t: t.du(top=2))),
    ("du --by thread --top 3", lambda s: s.du_by("thread", top=3)),
    (f"du {TRIP} --by ns", trip(lambda t: t.du_by("ns"))),
    (f"replay {TRIP} --all-steps", trip(lambda t: t.transitions())),
    (f"replay {TRIP} --verify --ns planner", trip(lambda t: t.replay(ns="planner"))),
    (f"replay {TRIP}@step:3 --reducer messages=append", third(replayed)),
    ("replay --match r*", lambda s: s.replay_all(match="r*")),
    ("threads list --where status=error", lambda s: s.listed("status=error", sizes=True)),
    ("errors", lambda s: s.errors()),
    ("errors --by node", lambda s: s.errors_by("node")),
    ("secrets", lambda s: s.secrets()),
    (f"export {TRIP} --format jsonl", trip(lambda t: t.export())),
]
EMPTY = {"secrets"}
"""Answers without a record; two empty answers would be equal without any reason."""


def listed(one: CheckpointHandle) -> Answer[Any]:
    return one.listed()


def as_json(answer: Any) -> Any:
    """Return an answer of a handle as `json.loads` returns what a command prints."""
    if isinstance(answer, Answer):
        answer = answer.to_dict()
    elif isinstance(answer, AnswerList):
        answer = answer.to_list()
    elif isinstance(answer, Iterable) and not isinstance(answer, dict | str):
        answer = [as_json(one) for one in answer]
    assert types_in(answer) <= {dict, list, str, int, float, bool, type(None)}
    return json.loads(json.dumps(answer))


def types_in(value: object) -> set[type]:
    inner: list[object] = []
    if isinstance(value, dict):
        inner = [*value, *value.values()]
    elif isinstance(value, list):
        inner = value
    return {type(value)}.union(*map(types_in, inner))


@pytest.fixture
def store(sample: Path) -> Iterator[StoreHandle]:
    with ckpt_cli.open(sample) as opened:
        yield opened


@pytest.mark.parametrize("redact", [False, True], ids=["plain", "redacted"])
@pytest.mark.parametrize(("words", "ask"), ANSWERS, ids=[words for words, _ in ANSWERS])
def test_handles_answer_as_commands_do(sample: Path, words: str, ask: Ask, redact: bool) -> None:
    options = ["--redact"] if redact else []
    printed = ckpt("-s", sample, *options, "-o", "json", *words.split())
    with ckpt_cli.open(sample, redact=redact) as opened:
        answered = as_json(ask(opened))
    if words.startswith("export"):
        assert answered == [json.loads(one) for one in printed.out.splitlines()]
    else:
        assert answered == printed.json
    assert answered or words in EMPTY or redact


ERRORS: list[tuple[str, Ask]] = [
    ("show nobody", lambda s: s["nobody"]),
    (f"show {TRIP} --channel nothing", trip(lambda t: t.head.show(["nothing"]))),
    ("threads list --where status-error", lambda s: s.threads("status-error")),
    (f"history {TRIP} --ns nope", trip(lambda t: t.history(ns="nope"))),
    ("interrupts --older-than soon", lambda s: s.interrupts(older_than="soon")),
    ("grep (a", lambda s: s.grep("(a")),
    (f"grep a {TRIP} --match b", lambda s: s.grep("a", [TRIP], match="b")),
    ("stats --by colour", lambda s: s.stats(by="colour")),
    (f"replay {TRIP} --reducer hotel=no", trip(lambda t: t.replay({"hotel": "no"}))),
    (f"replay {TRIP} --reducer no=sum", trip(lambda t: t.replay({"no": "sum"}))),
    ("replay --all --reducer no=sum", lambda s: s.replay_all(reducers={"no": "sum"})),
    (
        f"diff --writes {TRIP} --channel nothing",
        trip(lambda t: t.head.diff_writes(channels=["nothing"])),
    ),
]


@pytest.mark.parametrize(("words", "ask"), ERRORS, ids=[words for words, _ in ERRORS])
def test_a_handle_raises_at_once_what_the_command_reports(
    sample: Path, store: StoreHandle, words: str, ask: Ask
) -> None:
    printed = ckpt("-s", sample, "-o", "json", *words.split())
    with pytest.raises(ckpt_cli.CkptError) as raised:
        ask(store)
    error = raised.value
    said = {"error": error.code, "message": error.message, "exit_code": error.exit_code}
    if error.hint is not None:
        # A command names the store of its run in the commands to paste.
        said["hint"] = error.hint.replace("`ckpt ", f"`ckpt -s {sample} ")
    if isinstance(error, ParseError):
        said["position"] = error.position
    assert json.loads(printed.err) == said


def test_a_search_counts_what_it_cannot_read(tmp_path: Path) -> None:
    path = copy_store(FIXTURES / "lg-1.2.22-serde" / "store.db", tmp_path)
    with ckpt_cli.open(path) as encrypted:
        thread = encrypted["aes-chat"]
        assert "LANGGRAPH_AES_KEY" in repr(thread.head.to_dict()["problem"])
        found = thread.grep("Deutsch")
        assert (found.missed, list(found)) == ("", [])
        assert found.unread > 0
    printed = ckpt("-s", path, "grep", "Deutsch", "aes-chat")
    assert (printed.code, found.missed in printed.err) == (ckpt_cli.PartlyDone.exit_code, True)


FACT = "fact_a1b2c3d4"
DEER = "deer|python"
MEMORY: list[tuple[str, Callable[[MemoryHandle], Any]]] = [
    ("list --all", lambda one: one.items()),
    ("list facts --match fact_* --category goal", lambda one: one.items("facts", category="goal")),
    ("list --since 1h --min-confidence 0.92", lambda one: one.items(min_confidence=0.92)),
    ("list --orphans", lambda one: one.items(orphans=True)),
    ("list --duplicates", lambda one: one.items(duplicates=True)),
    (f"show {FACT} --threads sample.db", lambda one: one.show(FACT, threads="sample.db")),
    ("show", lambda one: one.export()),
    ("export --match fact_*", lambda one: one.export(match="fact_*")),
    (f"search -iE {DEER}", lambda one: one.search(DEER, regex=True, ignore_case=True)),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory with a fact that repeats another and comes from a thread that is gone."""
    root = tmp_path_factory.mktemp("project")
    base = make(root)
    data = memory()
    again = {**fact("fact_again", data["facts"][0]["content"], "goal", 0.5), "source": "gone"}
    data["facts"].append(again)
    save_memory(base / "memory.json", data)
    shutil.copyfile(SAMPLE, root / "sample.db")
    return root


@pytest.fixture
def here(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(project)
    return project / ".deer-flow" / "memory.json"


@pytest.mark.parametrize("redact", [False, True], ids=["plain", "redacted"])
@pytest.mark.parametrize(("words", "ask"), MEMORY, ids=[words for words, _ in MEMORY])
def test_memory_answers_as_the_command_does(
    here: Path, words: str, ask: Callable[[MemoryHandle], Any], redact: bool
) -> None:
    options = ["--redact"] if redact else []
    printed = ckpt("-s", here, *options, "-o", "json", "memory", *words.split()).json
    with ckpt_cli.open_memory(here, redact=redact) as opened:
        assert as_json(ask(opened)) == printed
    if not (redact and "--" in words):  # category and confidence are hidden, too
        assert printed


def test_a_value_is_read_by_its_namespace_and_key(tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    fill(SqliteBench(str(file)))
    with ckpt_cli.open_memory(file) as opened:
        for (namespace, key), value in ITEMS.items():
            if namespace == ("users", "anna"):
                assert opened.get(f"users/anna/{key}") == value
                assert opened.get(key, "users/anna") == value
        assert json.loads(opened.raw("users/anna/profile")) == ITEMS[("users", "anna"), "profile"]
        with pytest.raises(ckpt_cli.Ambiguous, match="'profile' matches 2 items"):
            opened.get("profile")
        with pytest.raises(ckpt_cli.NotFound, match="no item 'nothing'"):
            opened.show("nothing")
        with pytest.raises(ckpt_cli.UsageError, match="cannot read the pattern") as error:
            opened.search("(", regex=True)
        assert error.value.hint == "leave out regex=True to search for the text as it is"
        assert "sqlite-store" in repr(opened)
    with ckpt_cli.open_memory(file, redact=True) as opened:
        assert opened.get("users/anna/profile") == ckpt_cli.Tagged("ckpt.redacted", "dict, 3 items")
        with pytest.raises(ckpt_cli.UsageError):
            opened.raw("users/anna/profile")
    # Threads and memory may be in one file.
    with SqliteBench(str(file)).saver() as saver:
        saver.setup()
    with ckpt_cli.open(file) as store:
        memory_of = store.memory
        assert (memory_of.get("users/anna/profile")["text"], store.memory) == ("Anna", memory_of)
    with pytest.raises(ckpt_cli.StoreUnavailable):
        memory_of.get("users/anna/profile")


def test_sessions_are_those_of_the_command(redis_url: str) -> None:
    fill_plain(redis_url, "trip")
    for name, user in (("s1", "ann"), ("s2", "bob")):
        save(redis_url, ContextState(name, user, "trip"))
    with redis.Redis.from_url(redis_url) as client:  # servers round the time to live
        for key in client.scan_iter("research_context:*"):
            client.persist(key)
    words = ("-s", redis_url, "-o", "json", "memory", "sessions")
    with ckpt_cli.open(redis_url) as store:
        assert as_json(store.sessions(user="ann")) == ckpt(*words, "--user", "ann").json != []
        assert as_json(store.session("s1")) == ckpt(*words, "s1").json


def test_what_a_store_does_not_hold_is_refused(store: StoreHandle) -> None:
    # No threads are not all threads.
    assert (list(store.interrupts([])), list(store.replay_all([]))) == ([], [])
    assert store.stats(iter(()))["threads"] == 0
    with pytest.raises(ckpt_cli.UnknownLayout, match="no long-term memory"):
        _ = store.memory
    with pytest.raises(UsageError, match="cannot group by 'colour'"):
        store.du_by("colour")  # type: ignore[arg-type]
    for ask in (store.sessions, lambda: store.session("s1")):
        with pytest.raises(ckpt_cli.CkptError):
            ask()


def test_stores_and_layouts_are_listed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    (project / "ckpt.toml").write_text(
        '[stores.trips]\nurl = "sample.db"\n[stores.x]\nurl = "no.db"\n'
    )
    try:
        found = ckpt_cli.stores()
        assert as_json(found) == ckpt("-o", "json", "stores").json
        assert {"trips", "x", "sample.db"} <= {one["name"] for one in found}
        assert [one["name"] for one in found if "error" in one] == ["x"]
    finally:
        (project / "ckpt.toml").unlink()
    assert as_json(ckpt_cli.stores(project)) == as_json(ckpt_cli.stores())
    assert ckpt_cli.stores(project / ".deer-flow")
    assert as_json(ckpt_cli.layouts()) == ckpt("-o", "json", "stores", "--layouts").json


# The handles of a store, its threads and its checkpoints, and the values that they give


TRIP = "trip-to-kyoto"


def test_threads_and_checkpoints_are_found_and_equal(store: StoreHandle, sample: Path) -> None:
    assert TRIP in store
    assert "trip-to-osaka" not in store
    assert (store[TRIP].checkpoint_count, store.newest().id) == (20, next(iter(store)).id)
    assert TRIP in {thread.id for thread in store}
    with pytest.raises(ckpt_cli.NotFound, match="no thread 'trip-to-kyot'") as error:
        _ = store["trip-to-kyot"]
    assert error.value.hint == "did you mean 'trip-to-kyoto'?"
    thread = store[TRIP]
    head, parent = thread.head, thread.at("~1")
    assert (head.step, parent.step) == (12, 11)
    assert head.parent is not None
    assert head.parent.id == parent.id
    assert [one.id for one in parent.children] == [head.id]
    assert store.at(f"{TRIP}@b955d").id == thread["b955d"].id
    assert (thread.at(as_of=head.ts).id, thread.at(as_of="2200-01-01").id) == (head.id, head.id)
    assert head.ts is not None
    assert thread[head.ts].id == thread.at(head.ts).id == head.id
    assert thread[date(2200, 1, 1)].id == head.id
    with pytest.raises(ckpt_cli.NotFound):
        thread.at("step:99")
    with pytest.raises(ckpt_cli.UsageError, match="cannot be combined"):
        thread.at("step:3", as_of="1h")
    assert (thread == store[TRIP], thread == TRIP) == (True, False)
    assert head == thread.at("step:12") != parent
    assert len({head, store.at(TRIP), parent}) == 2
    config = sample.with_name("own.toml")
    config.write_text(f'default = "agents"\n[stores.agents]\nurl = "{sample}"\n')
    with ckpt_cli.open(config=config) as other:
        assert other[TRIP] != thread
        assert other[TRIP].head != head


def test_the_facts_of_a_checkpoint_and_public_names(store: StoreHandle, sample: Path) -> None:
    head = store["refund-4711"].head
    assert head.status == store["refund-4711"].status == "interrupted"
    assert head.conditions == ["interrupted"]
    assert head.next == head.waiting == ["ask_approval"]
    assert [one["answered"] for one in head.interrupts] == [False]
    assert [task["node"] for task in head.tasks] == ["ask_approval"]
    assert (head.source, head.metadata["step"], head.step) == ("loop", 3, 3)
    assert head.ts is not None
    assert head.ts.tzinfo is UTC
    assert [one["channel"] for one in head.writes] == ["__interrupt__"]
    assert head.rebuilt == {}
    assert (len(head.diff()), dict(head.diff())) == (3, head.diff().to_dict())
    assert repr(head) == f"<CheckpointHandle refund-4711@{head.id}>"
    assert str(sample) in repr(store)
    thread = store[TRIP]
    assert thread.at(ns="planner").ns == thread.namespaces[1]
    with pytest.raises(ckpt_cli.NotFound):
        head.get("nothing")
    # Only public names can be imported.
    assert all(getattr(ckpt_cli, name) is not None for name in ckpt_cli.__all__)
    assert dir(ckpt_cli) == sorted(ckpt_cli.__all__)
    with pytest.raises(AttributeError, match="no attribute 'rollback'"):
        _ = ckpt_cli.rollback


@pytest.mark.parametrize("opened", [ckpt_cli.open, ckpt_cli.open_memory])
def test_errors_hide_what_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Callable[..., object]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ckpt_cli.UsageError, match="no store given"):
        opened()
    monkeypatch.setenv("SECRET_HOST", "127.0.0.1")
    config = tmp_path / "own.toml"
    config.write_text('[stores.far]\nurl = "redis://${SECRET_HOST}:1/0"\n')
    with pytest.raises(ckpt_cli.StoreUnavailable) as error:
        opened("far", config=config)
    assert "127.0.0.1" not in f"{error.value} {error.value.hint}"


def test_a_state_that_cannot_be_read_is_not_an_empty_one(sample: Path) -> None:
    with ckpt_cli.open(sample, redact=True) as opened, pytest.raises(ckpt_cli.UsageError):
        opened[TRIP].head.raw()
    with closing(sqlite3.connect(sample)) as database, database:
        database.execute("UPDATE checkpoints SET checkpoint = x'c1' WHERE thread_id = ?", (TRIP,))
    with ckpt_cli.open(sample) as store, pytest.raises(ckpt_cli.Unreadable):
        _ = store[TRIP].head.values


OPAQUE = Opaque("pickle", 3, "00", "a pickle")
_STEPS: Any = ("a",)
_SET: Any = {1}
_CUT_SET = Cut([_SET], 9, "too long")


@cases(
    "value expected",
    (Tagged("builtins.tuple", [1, Tagged("builtins.tuple", [2])]), (1, (2,))),
    (Tagged("builtins.frozenset", [1]), frozenset({1})),
    (
        Tagged("datetime.datetime", "2026-04-07T10:00:00+00:00"),
        datetime(2026, 4, 7, 10, tzinfo=UTC),
    ),
    (Tagged("builtins.set", [[1]]), Tagged("builtins.set", [[1]])),
    (Tagged("builtins.set", [1, True]), Tagged("builtins.set", [1, True])),
    (
        Tagged("app.Plan", {"steps": Tagged("builtins.tuple", ["a"])}),
        Tagged("app.Plan", {"steps": _STEPS}),
    ),
    ({Tagged("builtins.tuple", [1, 2]): b"x"}, {(1, 2): b"x"}),
    (Cut([Tagged("builtins.set", [1])], 9, "too long"), _CUT_SET),
    ([OPAQUE, None, True, 1.5], [OPAQUE, None, True, 1.5]),
)
def test_examples(value: Value, expected: Any) -> None:
    found = plain(value)
    assert found == expected
    assert type(found) is type(expected)
    assert to_json(found) == codec.to_json(value)


# In a notebook: what a store holds is text, never a tag, a style or an escape


HOSTILE = [
    "<script>alert(1)</script>",
    "</pre><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "&lt;i&gt; &amp; &#60;u&#62;",
    "<!-- ",
    "\x1b[31mred\x1b[0m",
    "\u202ereversed\u2066",
    "two\nlines\rand\tmore",
]


def parsed(shown: Any) -> tuple[set[str], str]:
    """Return the styles and the text of the HTML of a handle, in which each tag is one of ours."""
    page = re.fullmatch(r'<pre style="[^"<>]*">(.*)</pre>\s*', shown._repr_html_(), re.DOTALL)
    assert page is not None
    pieces = re.split(r'<span style="([^"<>]*)">([^<>]*)</span>', page[1])
    styles = set(pieces[1::3])
    assert styles <= set(STYLES.values())
    del pieces[1::3]
    assert not set("<>\x1b\u202e\u2066\r") & set("".join(pieces))
    return styles, unescape("".join(pieces))


class State(TypedDict, total=False):
    text: Any


def fill_with(path: Path, hostile: str) -> None:
    """A thread with a hostile id, node, channel value, metadata, question and error."""

    def ask(state: State) -> State:
        return {"text": interrupt({hostile: hostile})}

    def fail(state: State) -> State:
        raise ValueError(hostile)

    config = {"configurable": {"thread_id": hostile}, "metadata": {"note": hostile}}
    graph = beside(State, {f"ask {hostile}": ask, f"fail {hostile}": fail})
    with running(path, graph) as agent, pytest.raises(ValueError, match=re.escape(hostile)):
        agent.invoke({"text": [hostile, {hostile: hostile}]}, config)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_nothing_in_a_store_becomes_a_tag(tmp_path: Path, hostile: str) -> None:
    fill_with(tmp_path / "agent.db", hostile)
    with ckpt_cli.open(tmp_path / "agent.db") as store:
        thread = store.newest()
        (_, tree), (_, state) = parsed(thread), parsed(thread.head)
        assert (repr(thread) + repr(thread.head)).isprintable()
        if hostile.isprintable():
            assert hostile in tree.splitlines()[0]
            assert hostile in state
        for checkpoint in thread.history():
            parsed(checkpoint)


def test_the_drawings_are_those_of_the_commands_and_notes_have_no_escapes(
    sample: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ckpt_cli.open(sample) as store:
        store.newest()
        assert not caplog.records
        store._around.note("\x1b[31mred\nlines")
    assert r"\x1b[31mred\nlines" in caplog.text
    assert "\x1b" not in caplog.text
    # The drawings are those of the commands.
    with ckpt_cli.open(sample) as store:
        thread = store["trip-to-kyoto"]
        styles, text = parsed(thread)
        assert (text, len(styles) > 2) == (thread.tree(), True)
        assert "Hotel Kanra Kyoto" in parsed(thread.head)[1]


def test_colours_are_legible_on_white_and_on_black_pages() -> None:
    colours = {one for style in STYLES.values() for one in re.findall(r"#\w{6}", style)}
    assert len(colours) > 4
    for colour in map(Color.parse, colours):
        for page in ("#ffffff", "#111111"):
            assert contrast(colour, Color.parse(page)) > 4, colour


# Each example of docs/python.md is run, and prints what the page shows


PAGE = (ROOT / "docs" / "python.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", PAGE, re.M | re.S)
CLASSES = {
    "store": ckpt_cli.StoreHandle,
    "thread": ckpt_cli.ThreadHandle,
    "checkpoint": ckpt_cli.CheckpointHandle,
    "memory": ckpt_cli.MemoryHandle,
}
UNPROMISED = {
    *("named", "chosen", "checkpoint_of", "checkpoint"),
    *("read_tree", "select", "conversation", "entry", "operations"),
}
"""What commands need of handles, and scripts do not: it uses classes that may change."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the sample store and a memory, in a time zone that is not UTC."""
    shutil.copyfile(SAMPLE, tmp_path / "sample.db")
    at = "2026-11-21 22:28:27"
    with contextlib.closing(sqlite3.connect(tmp_path / "memory.db")) as db, db:
        db.execute("CREATE TABLE store (prefix text, key text, value text, created_at, updated_at)")
        value = '{"name": "Anna", "drinks": ["green tea", "water"]}'
        db.execute(
            "INSERT INTO store VALUES (?, ?, ?, ?, ?)", ["users.anna", "profile", value, at, at]
        )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield tmp_path
    monkeypatch.undo()
    time.tzset()


def test_the_examples_print_what_the_page_shows(folder: Path) -> None:
    names: dict[str, Any] = {}
    shown, printed = [], []
    for code, text in BLOCKS:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, names)
        shown.append((code, text))
        printed.append((code, out.getvalue()))
    assert printed == shown
    assert len(shown) > 10


@pytest.mark.parametrize("what", CLASSES)
def test_the_tables_name_what_there_is(what: str) -> None:
    (table,) = re.findall(rf"^\| {what} \| gives \|\n(.*?)\n\n", PAGE, re.M | re.S)
    cells = " ".join(row.split(" | ")[0] for row in table.splitlines())
    named = set(re.findall(rf"(?:`{what}|`|, )\.([a-z_]+)", cells))
    named |= set(re.findall(rf"`{what}\.([a-z_]+)", cells))
    assert named
    assert [name for name in sorted(named) if not hasattr(CLASSES[what], name)] == []


def test_the_page_names_what_handles_offer_and_every_public_name() -> None:
    for found in CLASSES.values():
        offered = {name for name in vars(found) if not name.startswith("_")}
        assert {name for name in offered - UNPROMISED if f".{name}" not in PAGE} == set(), found
    # Every public name is on the page.
    hidden = {"__version__", "Answer", "AnswerList", "SearchHits", "MemoryItems", "MemoryHits"}
    handles = {one.__name__ for one in CLASSES.values()}
    missing = {
        name
        for name in ckpt_cli.__all__
        if name not in hidden | handles and f"ckpt.{name}" not in PAGE
    }
    assert missing == set()
    # Exit codes of errors are those of the page.
    rows = re.findall(r"^\| (`ckpt\..*?) \| (\d) \|", PAGE, re.M)
    told = {name: int(code) for names, code in rows for name in re.findall(r"ckpt\.(\w+)", names)}
    classes = [
        name
        for name in ckpt_cli.__all__
        if isinstance(found := getattr(ckpt_cli, name), type)
        and issubclass(found, ckpt_cli.CkptError)
        and found is not ckpt_cli.CkptError
    ]
    assert told == {name: getattr(ckpt_cli, name).exit_code for name in classes}
