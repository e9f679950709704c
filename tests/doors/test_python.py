"""The handles and the commands give the same answers."""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import redis

import ckpt_cli
from ckpt_backends.errors import ParseError, UsageError
from ckpt_cli import Answer, AnswerList, CheckpointHandle, MemoryHandle, StoreHandle, ThreadHandle
from tests.kit.command import FIXTURES, SAMPLE, ckpt, copy_store
from tests.kit.memory.benches import SqliteBench
from tests.kit.memory.contents import ITEMS, fill
from tests.kit.savers.deerflow import fact, make, memory
from tests.kit.savers.deerflow import save as save_memory
from tests.kit.savers.redis_threads import fill_plain
from tests.kit.savers.sessions import ContextState, save

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


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One copy of the sample for all tests, which only read it."""
    return copy_store(SAMPLE, tmp_path_factory.mktemp("answers"))


@pytest.fixture
def store(path: Path) -> Iterator[StoreHandle]:
    with ckpt_cli.open(path) as opened:
        yield opened


@pytest.mark.parametrize("redact", [False, True], ids=["plain", "redacted"])
@pytest.mark.parametrize(("words", "ask"), ANSWERS, ids=[words for words, _ in ANSWERS])
def test_handles_answer_as_commands_do(path: Path, words: str, ask: Ask, redact: bool) -> None:
    options = ["--redact"] if redact else []
    printed = ckpt("-s", path, *options, "-o", "json", *words.split())
    with ckpt_cli.open(path, redact=redact) as opened:
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
    path: Path, store: StoreHandle, words: str, ask: Ask
) -> None:
    printed = ckpt("-s", path, "-o", "json", *words.split())
    with pytest.raises(ckpt_cli.CkptError) as raised:
        ask(store)
    error = raised.value
    said = {"error": error.code, "message": error.message, "exit_code": error.exit_code}
    if error.hint is not None:
        # A command names the store of its run in the commands to paste.
        said["hint"] = error.hint.replace("`ckpt ", f"`ckpt -s {path} ")
    if isinstance(error, ParseError):
        said["position"] = error.position
    assert json.loads(printed.err) == said


def test_a_search_counts_what_it_cannot_read(tmp_path: Path) -> None:
    path = copy_store(FIXTURES / "lg-1.2.22-serde" / "store.db", tmp_path)
    with ckpt_cli.open(path) as encrypted:
        thread = encrypted["aes-chat"]
        assert "LANGGRAPH_AES_KEY" in repr(thread.head.to_dict()["problem"])
        found = thread.grep("Deutsch")
        assert found.missed == ""
        assert list(found) == []
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
