"""DeerFlow's memory: read in every place and of both generations; edited whole or not at all, and
never over what DeerFlow wrote meanwhile.
"""

import fcntl
import inspect
import json
import os
import shlex
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.postgres import PostgresSaver

import ckpt_cli
from ckpt_backends.apps.deerflow import memory as replace_file
from ckpt_backends.apps.deerflow.memory import TABLE
from ckpt_backends.changes import Remains
from ckpt_backends.errors import (
    Refused,
    StoreChanged,
    StoreUnavailable,
    UnknownLayout,
    Unreadable,
    Unsupported,
)
from ckpt_backends.files import locked
from ckpt_backends.memory import Item, Source
from ckpt_backends.open_for_writing import open_editable_memory, open_writable_memory
from ckpt_backends.registry import open_memory
from ckpt_backends.rows import Row
from ckpt_backends.url import parse_url
from tests.kit.cases import cases
from tests.kit.command import ckpt, ended
from tests.kit.savers.deerflow import (
    BODY,
    FRONT,
    LATER,
    THREAD,
    TURNS,
    fact,
    make,
    memory,
    read,
    save,
    write_fact,
)


@pytest.fixture(autouse=True)
def no_deerflow_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DEER_FLOW_CONFIG_PATH", "DEER_FLOW_HOME", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The worked example, made once by the official graph, and copied for each test."""
    root = tmp_path_factory.mktemp("deerflow")
    make(root)
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    """A folder with `config.yaml` and `.deer-flow`."""
    target = tmp_path / "project"
    shutil.copytree(made, target)
    return target


@pytest.fixture
def base(root: Path) -> Path:
    return root / ".deer-flow"


@pytest.fixture
def store(base: Path) -> Path:
    return base / "data" / "deerflow.db"


def test_every_place_has_a_namespace_of_its_own(tmp_path: Path) -> None:
    base = tmp_path / ".deer-flow"
    for owner in ("", "agents/coder", "users/anna", "users/anna/agents/coder"):
        save(base / owner / "memory.json", memory())
    write_fact(base, "bert", "__default__", "fact_one", FRONT, BODY)
    with open_memory(parse_url(str(tmp_path))) as store:
        found = {"/".join(one.namespace): one.items for one in store.namespaces()}
        owners = ("", "agents/coder/", "users/anna/", "users/anna/agents/coder/")
        own = {f"{owner}{kind}": 2 for owner in owners for kind in ("facts", "user")}
        assert found == {**own, "users/bert/agents/__default__/facts": 1}
        assert {one.namespace[:2] for one in store.namespaces(("users", "anna"))} == {
            ("users", "anna")
        }
        info = store.describe()
        assert (info.layout, info.engine) == ("deerflow", "files of version 1.0")
        assert "users/anna/agents/coder/memory.json" in info.tables
    one = read(base / "users/anna/agents/coder/memory.json")
    assert {item.key.namespace[:-1] for item in one} == {("users", "anna", "agents", "coder")}
    assert len(one) == 4


@pytest.mark.parametrize("form", ["{}", "{}/", "deerflow:///{}", "{}/.deer-flow/memory.json"])
def test_a_store_is_named_by_its_file_its_folder_or_a_url(tmp_path: Path, form: str) -> None:
    save(tmp_path / ".deer-flow" / "memory.json", memory())
    assert len(read(form.format(tmp_path))) == 4
    assert (
        len(read(form.format(tmp_path / ".deer-flow").replace("/.deer-flow/.deer", "/.deer"))) == 4
    )


@pytest.mark.parametrize("created", ["'2026-07-23T10:00:00Z'", "2026-07-23T10:00:00Z"])
def test_a_fact_as_markdown_is_read_whole(tmp_path: Path, created: str) -> None:
    base = tmp_path / ".deer-flow"
    front = FRONT.replace("'2026-07-23T10:00:00Z'", created)
    write_fact(base, "anna", "coder", "fact_one", front, BODY)
    save(base / "users/anna/memory.json", {"version": "2.0", "revision": 3, "user": {}})
    (item,) = read(base)
    assert (item.category, item.confidence) == ("goal", 0.9)
    assert item.source == Source("thread", "thread_abc123")
    times = [at.isoformat() for at in (item.created_at, item.updated_at) if at is not None]
    assert times == ["2026-07-23T10:00:00+00:00", "2026-07-24T10:00:00+00:00"]
    assert item.value is not None
    value = json.loads(item.value.data)
    assert value["title"] == "迁移"
    assert value["content"] == "计划将团队 CI/CD 迁移到 GitHub Actions\n\n第二行"
    assert read(base / "users/anna/memory.json") == [item]
    assert "users/anna/agents/coder/facts/" in ckpt("-s", base, "memory", "show").out


@cases(
    "front why",
    ("a: &a [1, 2]\nb: [*a, *a]", "aliases are not allowed"),
    ("a: !!python/object/apply:os.system ['true']", "is not allowed"),
    ("- " * 3000, "nested too deeply"),
    ("a: [", "not YAML at line 1"),
    ("just text", "not a map"),
    ("id: " + "x" * (1 << 21), "too long"),
)
def test_a_hostile_fact_is_shown_for_what_it_is(tmp_path: Path, front: str, why: str) -> None:
    base = tmp_path / ".deer-flow"
    write_fact(base, "anna", "coder", "bad", front, "x\n")
    write_fact(base, "anna", "coder", "fact_one", FRONT, BODY)
    bad, good = read(base)
    assert bad.value is not None
    assert why in bad.value.problem
    assert (bad.category, good.category) == (None, "goal")
    assert "not read" in ckpt("-s", base, "memory", "show", "bad", code=0).out


@cases(
    "text why",
    ("", "the file is empty"),
    ("[]", "neither facts"),
    ('{"facts": [], "facts": [1]}', "duplicate key"),
    ('{"facts": ' + "[" * 100_000, "nested too deeply"),
    ('{"facts": [' + "9" * 5000 + "]}", "digits"),
    (b"\xff\xfe", "decode"),
)
def test_a_file_that_is_no_memory_is_told(tmp_path: Path, text: str | bytes, why: str) -> None:
    path = tmp_path / "memory.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(Unreadable, match=why):
        read(path)
    assert "Traceback" not in ckpt("-s", path, "memory", "list", code=4).err


def test_odd_facts_are_listed_and_nothing_breaks(tmp_path: Path) -> None:
    data = memory()
    data["facts"] = [
        fact("same", "x", "a\x1b[31mb", 0.5, source={"type": "manual", "threadId": None}),
        fact("same", "y", "b", float("nan"), source=""),
        fact("../../etc", "z", "c", 10**400, createdAt="yesterday"),
        {"content": 5, "category": 7, "confidence": True, "source": 3, "createdAt": 12},
        "text",
        None,
        {"id": "half", "content": "\ud800"},
    ]
    data["history"] = {"recentMonths": None, "earlierContext": {"summary": ""}}
    path = tmp_path / "memory.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    found = {item.key.key: item for item in read(path)}
    assert {"same", "same[1]", "../../etc", "[3]", "[4]", "[5]", "half"} <= found.keys()
    assert found["same"].source == Source("manual")
    assert found["same[1]"].confidence is None
    for words in (["list"], ["show"], ["list", "--duplicates", "--orphans", "--threads", "x"]):
        for form in ("table", "json", "tsv"):
            answer = ckpt("-s", path, "memory", *words, "-o", form)
            assert "Traceback" not in answer.err
            assert "\x1b" not in answer.out
    for key in found:
        ckpt("-s", path, "memory", "show", key, "-o", "json", code=0)


def test_what_is_missing_is_told_and_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / ".deer-flow").mkdir()
    with pytest.raises(UnknownLayout):
        read(tmp_path)
    for words in (["memory", "list"], ["threads", "list"]):
        ckpt("-s", tmp_path / "memory.json", *words, code=4, says="no such file")
    os.mkfifo(tmp_path / "memory.json")
    ckpt("-s", tmp_path / "memory.json", "memory", "list", code=4)


def test_reading_changes_nothing(root: Path) -> None:
    def state() -> dict[str, tuple[bytes, int]]:
        return {
            str(path): (path.read_bytes(), path.stat().st_mtime_ns)
            for path in root.rglob("memory*")
        }

    before = state()
    for words in (["list"], ["show"], ["show", "fact_a1b2c3d4"], ["search", "CI"], ["export"]):
        ckpt("-s", root, "memory", *words, code=0)
    ckpt("-s", root, "memory", "edit", "fact_a1b2c3d4", "--set", "category=x", code=0)
    assert state() == before


def test_threads_of_a_memory_are_refused_with_where_they_are(root: Path, store: Path) -> None:
    for words in (["threads", "list"], ["show"], ["purge", "--match", "*", "--yes"]):
        ckpt("-s", root, *words, code=4, says=f"-s '{store}'")
    ckpt("-s", root, "--copy", "memory", "list", code=0)
    ckpt("-s", f"deerflow:///{root}?x=1", "memory", "list", code=2)


def test_without_yaml_all_else_is_read(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    shown = ckpt("-s", base, "memory", "show", "fact_a1b2c3d4", "-o", "json").json
    assert "langgraph-ckpt[deerflow]" in shown["origin"]["remark"]
    write_fact(base, "anna", "coder", "fact_one", FRONT, BODY)
    ckpt("-s", base, "memory", "list", code=2, says="langgraph-ckpt[deerflow]")
    alone = ckpt("-s", base / "memory.json", "memory", "list", "--category", "goal", "-o", "json")
    assert [one["key"] for one in alone.json] == ["fact_e5f6g7h8"]


def test_a_list_has_the_text_of_facts_and_sections(base: Path) -> None:
    write_fact(base, "anna", "coder", "fact_one", FRONT, BODY)
    listed = ckpt("-s", base, "memory", "list", "-o", "json").json
    texts = {one["key"]: one["text"] for one in listed}
    assert texts["fact_a1b2c3d4"] == "在字节跳动担任后端开发工程师"
    assert texts["topOfMind"].startswith("正在研究 DeerFlow")
    assert "第二行" in texts["fact_one"]
    hidden = ckpt("--redact", "-s", base, "memory", "list", "-o", "json").json
    assert not any("text" in one for one in hidden)
    assert "字节跳动" not in ckpt("--redact", "-s", base, "memory", "list").out
    # Of facts that say the same, the newer one is told.
    data = memory()
    data["facts"] += [
        fact("fact_new", "  计划将团队 ci/cd 迁移到 github actions ", "goal", 0.8),
        *(fact(ident, "", "goal", 0.8) for ident in ("fact_empty", "fact_void")),
    ]
    save(base / "memory.json", data)
    save(base / "agents/coder/memory.json", memory())
    found = ckpt("-s", base, "memory", "list", "--duplicates", "-o", "json").json
    assert [(one["key"], one["duplicate_of"]) for one in found] == [("fact_new", "fact_e5f6g7h8")]
    text = ckpt("-s", base, "memory", "list", "--duplicates", "-o", "table").out
    assert "duplicate of fact_e5f6g7h8" in text


def test_secrets_are_found_in_a_memory_without_threads(base: Path, store: Path) -> None:
    store.unlink()
    token = "ghp_" + "1234567890abcdefghij1234567890abcdef"
    kept = memory()
    kept["facts"].append(fact("fact_token", f"the token is {token}", "context", 0.5))
    save(base / "memory.json", kept)
    for place in (base, base / "memory.json", base.parent):
        found = ckpt("-s", place, "secrets", "-o", "json", code=1)
        (one,) = found.json
        assert (one["kind"], one["place"], one["key"]) == ("github-token", "memory", "fact_token")
        assert token not in found.out + found.err
    assert "searched long-term memory: 1 secret" in ckpt("-s", base, "secrets").err
    (base / "songs.db").write_bytes(b"")
    ckpt("-s", base / "songs.db", "secrets", code=4)
    ckpt("-s", base, "secrets", "trip", code=4, says="the file of its threads is not there")


GO, MOVE = "fact_a1b2c3d4", "fact_e5f6g7h8"


def origin(root: Path, key: str = GO, *more: str) -> Any:
    return ckpt("-s", root, "memory", "show", key, *more, "-o", "json").json["origin"]


def keys(root: Path, *words: str) -> list[str]:
    return [one["key"] for one in ckpt("-s", root, "memory", "list", *words, "-o", "json").json]


def test_the_checkpoint_is_as_of_the_creation_of_the_fact(root: Path, store: Path) -> None:
    then = ckpt(
        "-s", store, "messages", f"{THREAD}@{origin(root)['checkpoint_id']}", "-o", "json"
    ).json
    assert [one["content"] for one in then if one["role"] == "human"] == list(TURNS)
    now = ckpt("-s", store, "messages", THREAD, "-o", "json").json
    assert LATER in [one["content"] for one in now]
    message = origin(root, MOVE)["message"]
    assert (message["content"], message["index"], message["assumed"]) == (TURNS[2], 4, True)
    # The text shows the sentence, and a command that reads on.
    answer = ckpt("-s", root, "memory", "show", MOVE)
    assert f"said     {TURNS[2]}" in answer.out
    assert "assumed" in answer.out
    (command,) = [one for one in answer.out.splitlines() if one.startswith("read ")]
    words = shlex.split(command)[1:]
    assert words[0] == "ckpt"
    again = ckpt(*words[1:])
    assert (again.code, TURNS[2] in again.out, LATER in again.out) == (0, True, False)


SQLITE = "checkpointer:\n  type: sqlite\n  connection_string: "


@cases(
    "settings why",
    (f"{SQLITE}data/deerflow.db\n", ""),
    (f"{SQLITE}.deer-flow/data/deerflow.db\n", ""),
    (f"{SQLITE}$CHECKPOINTS\ndatabase: {{backend: memory}}\n", ""),
    ("models: []\n", ""),
    ("a: &a [1, 2]\nb: [*a, *a]\ndatabase: {backend: sqlite, sqlite_dir: .deer-flow/data}\n", ""),
    (None, ""),
    ("checkpointer: {type: memory}\n", "in memory only"),
    ("checkpointer: {type: sqlite, connection_string: $NOT_SET}\n", "'NOT_SET' is not set"),
    ("database: {backend: postgres}\n", "no connection string"),
    ("checkpointer: {type: oracle, connection_string: x}\n", "unknown type 'oracle'"),
    ("- " * 3000, "nested too deeply"),
    ("checkpointer: {type: sqlite, connection_string: gone.db}\n", "no such file"),
)
def test_deerflows_own_settings_name_the_checkpoints_or_it_is_said_why_not(
    root: Path, store: Path, settings: str | None, why: str
) -> None:
    (root / ".env").write_text(f"# a comment\nexport CHECKPOINTS='{store}'\n")
    config = root / "config.yaml"
    if settings is None:
        config.unlink()
    else:
        config.write_text(settings)
    found = origin(root)
    if not why:
        assert Path(found["store"]).resolve() == store
        assert "message" in found
        return
    assert (found["checkpoint_id"], why in found["remark"]) == (None, True)
    if "postgres" in str(settings):  # what is missing is asked for by the right option
        threads = ckpt("-s", root, "threads", "list").err
        assert ("with -s" in threads, "--threads" in threads) == (True, False)
        assert ckpt("-s", root, "memory", "list", "--orphans").err.count("--threads STORE") == 1


def test_the_settings_may_lie_above_the_folder(root: Path) -> None:
    inner = root / "backend"
    inner.mkdir()
    (root / ".deer-flow").rename(inner / ".deer-flow")
    assert "message" in origin(inner)


def test_checkpoints_on_postgres_are_found_by_the_settings(
    root: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PostgresSaver.from_conn_string(postgres_url) as saver:
        saver.setup()
    settings = root / "config.yaml"
    settings.write_text(
        "database:\n  backend: postgres\n  postgres_url: $DATABASE_URL\n  postgres_schema: public\n"
    )
    monkeypatch.setenv("DATABASE_URL", postgres_url)
    assert "'DATABASE_URL' is not set in .env" in origin(root)["remark"]
    (root / ".env").write_text(f"DATABASE_URL={postgres_url}\n")
    assert "names a server" in origin(root)["remark"]
    monkeypatch.setenv("DEER_FLOW_CONFIG_PATH", str(settings.rename(root / "named.yaml")))
    found = origin(root)
    assert found["store"].startswith("postgresql://")
    assert f"no thread '{THREAD}'" in found["remark"]


def test_another_store_of_threads_can_be_named(root: Path, store: Path, tmp_path: Path) -> None:
    (root / "config.yaml").unlink()
    moved = tmp_path / "moved.db"
    store.rename(moved)
    assert "message" not in origin(root)
    assert "message" in origin(root, GO, "--threads", str(moved))
    profiles = tmp_path / "ckpt.toml"
    profiles.write_text(
        f'[stores.mem]\nurl = "{root}"\nthreads = "moved.db"\n'
        f'[stores.thr]\nurl = "moved.db"\nmemory = "mem"\n'
    )
    line: list[str | Path] = ["--config", profiles, "-o", "json"]
    assert "message" in ckpt("-s", "mem", *line, "memory", "show", GO).json["origin"]
    shown = ckpt("-s", "thr", *line, "show", "--long", THREAD).json
    assert [one["key"] for one in shown["memories"]] == [GO, MOVE]
    ckpt("-s", root, "memory", "show", GO, "--threads", "no.db", code=4)


def test_a_thread_that_is_gone_is_told_and_found(root: Path, store: Path) -> None:
    before = (root / ".deer-flow" / "memory.json").read_bytes()
    for words, named in (
        (["purge", "--keep-last", "1", "--dry-run"], []),
        (["purge", "--match", "*", "--protect", "thread_*", "--dry-run"], []),
        (["purge", "--match", "*", "--yes"], [GO, MOVE]),
    ):
        told = ckpt("-s", store, *words, "-o", "json").json["memories"]
        assert [one["key"] for one in told] == named, words
    assert (root / ".deer-flow" / "memory.json").read_bytes() == before
    assert f"no thread '{THREAD}'" in origin(root)["remark"]
    found = ckpt("-s", root, "memory", "list", "--orphans", "-o", "json").json
    assert [(one["key"], one["orphan"]) for one in found] == [(GO, True), (MOVE, True)]
    assert "thread missing" in ckpt("-s", root, "memory", "list", "-o", "table", "--orphans").out


def test_facts_whose_message_cannot_be_told_say_why(base: Path) -> None:
    data = memory()
    data["facts"][0]["createdAt"] = "2020-01-01T00:00:00Z"
    del data["facts"][1]["createdAt"]
    save(base / "memory.json", data)
    old, timeless = origin(base), origin(base, MOVE)
    assert (old["checkpoint_id"], timeless["step"]) == (None, 10)
    assert "had no checkpoint at 2020" in old["remark"]
    assert "no creation time" in timeless["remark"]
    data = memory()
    data["facts"][0]["content"] = "zzz"
    data["facts"][1]["source"] = "manual"
    save(base / "memory.json", data)
    unsaid = origin(base)
    assert ("message" in unsaid, unsaid["human_messages"]) == (False, 4)
    assert "shares a word" in unsaid["remark"]
    # Without a thread, a fact has no origin and is no orphan.
    assert "origin" not in ckpt("-s", base, "memory", "show", MOVE, "-o", "json").json
    assert keys(base, "--orphans") == []


def test_a_thread_shows_what_is_remembered_from_it(root: Path, store: Path) -> None:
    shown = ckpt("-s", store, "show", "--long", THREAD, "-o", "json").json
    assert [one["key"] for one in shown["memories"]] == [GO, MOVE]
    assert "在字节跳动担任后端开发工程师" in ckpt("-s", store, "show", "--long", THREAD).out
    assert ckpt("-s", store, "show", "--long", "another", "-o", "json").json["memories"] == []
    elsewhere = root / "copy.db"
    elsewhere.write_bytes(store.read_bytes())
    assert "memories" not in ckpt("-s", elsewhere, "show", "--long", THREAD, "-o", "json").json
    named = ckpt("-s", elsewhere, "show", "--long", THREAD, "--memory", root, "-o", "json").json
    assert named["memories"] == shown["memories"]
    with ckpt_cli.open(elsewhere) as opened:
        assert opened[THREAD].memories() is None
        assert opened[THREAD].memories(str(root)) == shown["memories"]


def test_a_broken_memory_beside_the_threads_stops_nothing(base: Path, store: Path) -> None:
    (base / "memory.json").write_text("{")
    answer = ckpt("-s", store, "show", "--long", THREAD, "-o", "json", code=0)
    assert "memories" not in answer.json
    assert "cannot read the memory next to this store" in answer.err
    ckpt("-s", store, "show", "--long", THREAD, "--memory", base, code=4)


def test_values_are_not_shown_with_redact(root: Path, store: Path) -> None:
    lines: list[list[str | Path]] = [
        ["-s", root, "memory", "show"],
        ["-s", root, "memory", "show", GO],
        ["-s", root, "memory", "list", "--orphans"],
        ["-s", root, "memory", "edit", GO, "--set", "category=goal"],
        ["-s", store, "show", "--long", THREAD],
        ["-s", store, "purge", "--match", "*", "--dry-run"],
    ]
    for line in lines:
        for form in ("table", "json", "tsv"):
            answer = ckpt(*line, "--redact", "-o", form, code=0)
            for secret in ("字节", "后端", "context"):
                assert secret not in answer.out + answer.err, line


def test_the_threads_of_a_langgraph_store_are_in_the_same_file(tmp_path: Path, store: Path) -> None:
    """Where an item of a Store names a thread in its value, that is its source."""
    from langgraph.store.sqlite import SqliteStore

    with SqliteStore.from_conn_string(str(store)) as items:
        items.setup()
        items.put(("users", "anna"), "job", {"content": "后端开发", "thread_id": THREAD})
        items.put(("users", "anna"), "tea", {"content": "likes tea"})
    shown = ckpt("-s", store, "show", THREAD, "-o", "json").json
    with sqlite3.connect(store) as connection:  # the second of the head, which dropped its fraction
        when = shown["ts"][:19].replace("T", " ")
        connection.execute("UPDATE store SET created_at = ? WHERE key = 'job'", (when,))
    found = origin(store, "job")
    assert (found["thread_id"], found["checkpoint_id"]) == (THREAD, shown["checkpoint_id"])
    assert "后端开发" in found["message"]["content"]
    assert "origin" not in ckpt("-s", store, "memory", "show", "tea", "-o", "json").json


# Edits, removals and erasures


KEY = "fact_a1b2c3d4"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A memory.json with more in it than is known here."""
    data = memory()
    data["facts"][0]["x"] = {"ratio": 0.5, "list": [1, None, True], "é": "\u2028"}
    data["later"] = {"z": 1, "a": [{}]}
    found = tmp_path / ".deer-flow" / "memory.json"
    save(found, data)
    return found


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def edit(path: Path, *words: str) -> Any:
    return ckpt("-s", path, "memory", "edit", *words)


def test_an_edit_is_not_undone_if_its_field_was_changed_since(path: Path) -> None:
    assert edit(path, KEY, "--set", "category=goal", "--write").code == 0
    changed = load(path)
    changed["facts"][0]["category"] = "later"
    save(path, changed)
    ckpt("-s", path, "undo", "--yes", code=6, says="was used since")
    assert load(path) == changed


def test_an_edit_changes_its_field_and_nothing_else(path: Path) -> None:
    before, text = load(path), path.read_text(encoding="utf-8")
    path.chmod(0o640)
    assert edit(path, KEY, "--set", "category=goal", "--set", "confidence=0.5", "--write").code == 0
    after = load(path)
    assert after["lastUpdated"] > before["lastUpdated"]
    before["facts"][0] |= {"category": "goal", "confidence": 0.5}
    before["lastUpdated"] = after["lastUpdated"]
    assert after == before
    # The order, the indent and the characters are as they were: two lines and the date differ.
    lines = list(zip(text.split("\n"), path.read_text(encoding="utf-8").split("\n"), strict=True))
    assert sum(one != other for one, other in lines) == 3
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(path.parent) == ["memory.json"]
    assert edit(path, "user/workContext", "--set", "summary=写 Go。", "--write").code == 0
    section = load(path)["user"]["workContext"]
    assert section["summary"] == "写 Go。"
    assert section["updatedAt"] > before["user"]["workContext"]["updatedAt"]


@cases(
    "words code",
    (["--set", "confidence=2"], 2),
    (["--set", "confidence=nan"], 2),
    (["--set", "content= "], 2),
    (["--set", "source=x"], 2),
    (["--set", "category=context"], 0),
    (["--set", "content=计划将团队 ci/cd 迁移到 GitHub Actions "], 5),
)
def test_what_may_not_be_set_or_is_so_already_is_not_written(
    path: Path, words: list[str], code: int
) -> None:
    before = path.read_bytes(), path.stat().st_mtime_ns
    planned = edit(path, KEY, "--set", "content=新的", "-o", "json").json
    assert (planned["changes"]["content"]["after"], planned["written"]) == ("新的", False)
    assert edit(path, KEY, *words, "--write").code == code
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


@pytest.mark.parametrize("stands", [False, True], ids=["the clock goes", "the clock stands"])
def test_deerflow_sees_an_edit(path: Path, monkeypatch: pytest.MonkeyPatch, stands: bool) -> None:
    """It keeps what it read until the time of the file has changed."""
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        os.utime(descriptor, ns=(path.stat().st_mtime_ns, path.stat().st_mtime_ns))

    if stands:
        monkeypatch.setattr(os, "fsync", fsync)
    before = path.stat().st_mtime
    assert edit(path, KEY, "--set", "confidence=0.1", "--write").code == 0
    assert path.stat().st_mtime != before


def test_the_newer_layout_is_only_read(tmp_path: Path) -> None:
    base = tmp_path / ".deer-flow"
    found = write_fact(base, "anna", "coder", "fact_one", FRONT, BODY)
    manifest = base / "users/anna/memory.json"
    save(manifest, {"version": "2.0", "revision": 1, "user": {"topOfMind": {"summary": "x"}}})
    before = found.read_bytes(), manifest.read_bytes()
    for words in (["fact_one", "--set", "category=x"], ["topOfMind", "--set", "summary=y"]):
        answer = edit(base, *words, "--write")
        assert answer.code == 4
        assert "version 2.0 of DeerFlow's memory is read-only here" in answer.err
    with open_writable_memory(parse_url(str(base))) as writable, pytest.raises(Unsupported):
        writable.remove(items(base))
    assert (found.read_bytes(), manifest.read_bytes()) == before


@contextmanager
def at_call(
    monkeypatch: pytest.MonkeyPatch, name: str, number: int, do: Callable[[], None]
) -> Iterator[None]:
    """Do something before the call of that number of a function of `os`, or of the swap of names
    that comes after all checks.

    Calls that record the operation do not count.
    """
    module: Any = replace_file if name == "exchange" else os
    real, seen = getattr(module, name), 0

    def watched(*args: Any, **more: Any) -> Any:
        nonlocal seen
        if not any("/ckpt_cli/operations/" in one.filename for one in inspect.stack(context=0)):
            seen += 1
            if seen == number:
                do()
        return real(*args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(module, name, watched)
        yield
    assert seen >= number


@pytest.mark.parametrize(
    ("name", "number"),
    [("open", 2), ("open", 3), ("fsync", 1), ("exchange", 1)],
    ids=["before the edit", "before the new file", "before the disk", "at the very last moment"],
)
def test_what_the_app_writes_meanwhile_is_never_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    def app() -> None:
        data = load(path)
        data["facts"].append(fact("fact_new", "新的事实", "context", 0.9))
        data["facts"][0]["confidence"] = 0.1
        # The app's own write goes past what is watched here.
        save(path, data)

    with at_call(monkeypatch, name, number, app):
        answer = edit(path, KEY, "--set", "category=goal", "--write")
    assert answer.code == 6
    assert [one["id"] for one in load(path)["facts"]] == [KEY, "fact_e5f6g7h8", "fact_new"]
    assert load(path)["facts"][0]["category"] == "context"
    assert os.listdir(path.parent) == ["memory.json"]


def test_a_file_that_vanishes_is_not_made_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with at_call(monkeypatch, "fsync", 1, path.unlink):
        answer = edit(path, KEY, "--set", "category=goal", "--write")
    assert answer.code == 6
    assert os.listdir(path.parent) == []


STEPS = ("open", "fchown", "chmod", "fsync", "stat", "utime", "replace", "close", "unlink")


def killed_at(number: int, path: Path, item: Item) -> int:
    """Edit a fact in a child that is killed before the n-th of some system calls. Return its exit
    code, or its signal below zero.
    """
    seen = count(1)

    def watched(call: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*args: Any, **more: Any) -> Any:
            if next(seen) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **more)

        return instead

    def edit_fact() -> None:
        with open_editable_memory(parse_url(str(path))) as writable:
            for name in STEPS:
                setattr(os, name, watched(getattr(os, name)))
            writable.edit(item, {"category": "goal"})

    return ended(edit_fact)


def test_a_process_that_is_killed_leaves_the_old_or_the_new_file(path: Path) -> None:
    """What it leaves beside is no memory, and in nobody's way."""
    old, (item,) = path.read_bytes(), items(path, KEY)
    edited = load(path)
    edited["facts"][0]["category"] = "goal"
    ends: list[tuple[int, bool]] = []
    while not ends or ends[-1][0]:
        path.write_bytes(old)
        code = killed_at(len(ends) + 1, path, item)
        is_old = path.read_bytes() == old
        ends.append((code, is_old))
        assert is_old or load(path) == {**edited, "lastUpdated": load(path)["lastUpdated"]}
        assert len(items(path.parent)) == 4
    assert ends[0] == (-signal.SIGKILL, True)
    assert ends[-2:] == [(-signal.SIGKILL, False), (0, False)]
    assert len(ends) > len(STEPS)


def items(path: Path, *keys: str) -> list[Item]:
    return [one for one in read(path) if not keys or one.key.key in keys]


def test_of_two_facts_alike_the_one_that_is_meant_goes(tmp_path: Path) -> None:
    data = memory()
    data["facts"] = ["x", "x", {"id": "a"}, {"id": "a"}]
    path = tmp_path / "memory.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    with open_writable_memory(parse_url(str(path))) as writable:
        gone = items(path, "[1]", "a")
        writable.remove(gone)
        with pytest.raises(StoreChanged):
            writable.remove(gone)
        cells = {"namespace": json.dumps(gone[0].key.namespace), "key": "a"}
        with pytest.raises(StoreChanged, match="exists with other contents"):
            writable.restore([Row(TABLE, {**cells, "value": '{"id": "b"}'})])
        for odd in ({**cells, "key": None}, {**cells, "namespace": "[]"}, {**cells, "value": "?"}):
            with pytest.raises((Refused, Unsupported)):
                writable.restore([Row(TABLE, odd)])
    assert load(path)["facts"] == ["x", {"id": "a"}]


@pytest.mark.parametrize(("name", "number"), [("fsync", 2), ("exchange", 2)])
def test_all_files_are_changed_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    """A first file is put back where the second was written meanwhile."""
    base = tmp_path / ".deer-flow"
    both = [base / "memory.json", base / "users" / "anna" / "memory.json"]
    for one in both:
        save(one, memory())
    gone = items(base, KEY)
    assert len(gone) == 2
    old = both[0].read_bytes(), both[0].stat().st_mtime_ns
    with (
        open_writable_memory(parse_url(str(base))) as writable,
        at_call(monkeypatch, name, number, lambda: save(both[1], load(both[1]))),
        pytest.raises(StoreChanged),
    ):
        writable.remove(gone)
    assert (both[0].read_bytes(), both[0].stat().st_mtime_ns) == old
    assert len(load(both[1])["facts"]) == 2
    assert all(os.listdir(one.parent).count("memory.json") == 1 for one in both)
    assert not list(base.rglob("*.part"))


def test_where_names_cannot_be_swapped_a_file_is_replaced_and_a_link_stays(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "memory.json"
    link.symlink_to(path)
    monkeypatch.setattr(replace_file, "exchange", lambda *_: False)
    assert edit(link, KEY, "--set", "category=goal", "--write").code == 0
    assert link.is_symlink()
    assert load(path)["facts"][0]["category"] == "goal"
    assert os.listdir(path.parent) == ["memory.json"]


def test_items_are_removed_with_an_archive_and_put_back(path: Path, tmp_path: Path) -> None:
    before = load(path)
    line: list[str | Path] = ["-s", path, "memory", "delete", KEY, "user/topOfMind", "--yes"]
    ckpt(*line, code=5, says="--write")
    assert load(path) == before
    done = ckpt(*line, "--write", "--archive", tmp_path / "kept")
    (bundle,) = (tmp_path / "kept").iterdir()
    assert done.code == 0
    assert f"archive  {bundle}; `ckpt memory import {bundle}` restores it" in done.out
    left = load(path)
    assert [one["id"] for one in left["facts"]] == ["fact_e5f6g7h8"]
    assert list(left["user"]) == ["workContext"]
    back: list[str | Path] = ["-s", path, "memory", "import", bundle, "--yes"]
    ckpt(*back, code=5)
    for _ in range(2):  # what is there is not added again
        ckpt(*back, "--write", code=0)
        after = load(path)
        assert (after["facts"], after["user"]) == (before["facts"][::-1], before["user"])


def test_a_change_while_a_plan_is_read_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of the same length, and without a time: a fact of the first release has none of changes.
    changed = path.read_text(encoding="utf-8").replace("0.95", "0.11")
    monkeypatch.setattr("ckpt_cli.commands.memory.confirm", lambda _: path.write_text(changed))
    answer = ckpt("-s", path, "--redact", "memory", "delete", KEY, "--write")
    assert (answer.code, "changed" in answer.err, "context" in answer.out) == (6, True, False)
    assert path.read_text(encoding="utf-8") == changed


CANARY = "canary8f3a"
OLD = (0, 0)
"""The times of a file that nobody writes any more."""


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """The memory of two users: facts as Markdown with all that DeerFlow keeps about them, and the
    memory.json of an older release."""
    base = tmp_path / ".deer-flow"
    user = base / "users" / "anna"
    for ident in (CANARY, "fact_two"):
        write_fact(base, "anna", "coder", ident, FRONT, BODY.replace("第二行", f"{ident} said so"))
    summaries = {
        "topOfMind": {"summary": f"{CANARY} likes tea", "updatedAt": ""},
        "workContext": {},
    }
    save(user / "memory.json", {"version": "2.0", "revision": 3, "user": summaries})
    content = f"计划将团队 CI/CD 迁移到 GitHub Actions\n\n{CANARY} said so"
    before = {**memory(), "facts": [fact("x", content, "goal", 1), fact(CANARY, "", "", 1)]}
    save(user / "memory.json.v1.bak", before)
    metadata = user / "agents" / "coder" / ".metadata"
    evicted = [{"factId": CANARY}, {"factId": "fact_two"}]
    shadow = {"wouldEvict": [CANARY, "fact_two"], "disagrees": False}
    metadata.mkdir()
    (metadata / "fact-usage.json").write_text(json.dumps({CANARY: {"accessCount": 1}}))
    audit = [{"evicted": evicted, "shadow": shadow}]
    (metadata / "eviction-audit.json").write_text(json.dumps(audit))
    left = user / ".memory.json.0123.tmp"
    left.write_text(CANARY)
    os.utime(left, OLD)
    bert = {**memory(), "facts": [fact("fact_b", f"{CANARY} is a friend", "context", 1)]}
    save(base / "users" / "bert" / "memory.json", bert)
    return base


@contextmanager
def watched(base: Path) -> Iterator[list[bytes]]:
    """Yield what all files of the beginning hold at the end, under any name."""
    kept = [os.open(one, os.O_PATH) for one in sorted(base.rglob("*")) if one.is_file()]
    found: list[bytes] = []
    yield found
    for one in kept:
        found.append(Path(f"/proc/self/fd/{one}").read_bytes())
        os.close(one)


def erase(base: Path) -> Remains:
    url = parse_url(str(base))
    with open_memory(url) as store:
        items = [one for one in store.items(values=True) if CANARY in f"{one.key} {one.value}"]
    with open_writable_memory(url) as writable:
        writable.begin_erasure()
        assert writable.remove(items) == len(items)
        return writable.erase_remains()


def test_no_file_holds_an_erased_item(users: Path) -> None:
    user = users / "users" / "anna"
    (user / ".recovery").mkdir()
    (user / "memory.tmp").write_text("fresh")
    with watched(users) as files:
        remains = erase(users)
    assert len(files) == 9
    assert not any(CANARY.encode() in one for one in files)
    named = [one for one in users.rglob("*") if one.is_file()]
    assert not any(CANARY in f"{one} {one.read_text()}" for one in named)
    left = [one.key for one in read(users)]
    assert [one.key for one in left if "anna" in one.namespace] == ["fact_two", "workContext"]
    assert [one.key for one in left if "bert" in one.namespace] == ["topOfMind", "workContext"]
    assert json.loads((user / "memory.json").read_text())["revision"] == 4
    assert json.loads((user / "memory.json.v1.bak").read_text())["facts"] == []
    (event,) = json.loads((user / "agents/coder/.metadata/eviction-audit.json").read_text())
    assert event == {
        "evicted": [{"factId": "fact_two"}],
        "shadow": {"wouldEvict": ["fact_two"], "disagrees": False},
    }
    assert CANARY not in f"{remains}"
    assert remains.done[0] == "overwrite Markdown facts"
    assert [one.place for one in remains.places] == [
        *("unfinished files of DeerFlow (.tmp)", "'.recovery'"),
        *("memory of a running DeerFlow", "free blocks of the disk", "backups"),
    ]


def test_nothing_is_erased_after_a_change_by_deerflow(users: Path) -> None:
    url = parse_url(str(users))
    items = [one for one in read(users) if one.key.key in {CANARY, "topOfMind", "fact_b"}]
    (fact,) = users.rglob(f"{CANARY}.md")
    whole = fact.read_text()
    for change in (
        fact.unlink,
        lambda: fact.write_text(f"{whole[:-2]}~\n"),  # as long as before
        lambda: write_fact(users, "anna", "coder", CANARY, FRONT, "# later\n\nsomething else\n"),
    ):
        change()
        with open_writable_memory(url) as writable, watched(users) as files:
            writable.begin_erasure()
            with pytest.raises(StoreChanged):
                writable.remove(items)
    assert sum(CANARY.encode() in one for one in files) == 6
    # Nor while a change of DeerFlow is unfinished.
    (users / "users" / "anna" / ".memory.journal.json").write_text("{}")
    with pytest.raises(Refused, match="not finished"):
        erase(users)
    assert CANARY in [one.key.key for one in read(users)]


def test_the_lock_of_deerflow_is_heeded(users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpt_backends.files._LOCK_SECONDS", 0.1)
    with (users / "users" / "anna" / ".memory.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreUnavailable, match="another process is writing"):
            erase(users)
    # Two runs of `ckpt` lock the folder.
    with (
        locked(users / "users" / "anna"),
        pytest.raises(StoreUnavailable, match="another process is writing"),
    ):
        erase(users)


def test_facts_go_with_their_thread(base: Path, store: Path) -> None:
    front = f"id: fact_1\nsource:\n  type: thread\n  threadId: {THREAD}"
    mine = write_fact(base, "anna", "coder", "fact_1", front, "She works at Canary Ltd.")
    front = "id: fact_2\nsource:\n  type: thread\n  threadId: another"
    other = write_fact(base, "anna", "coder", "fact_2", front, "Likes tea.")
    before = other.read_bytes()
    found = ckpt("-s", store, "erase", THREAD, "--yes", "-o", "json", "--no-mentions").json
    items = {one["kind"]: one["items"] for one in found["places"] if one["state"] == "erased"}
    assert items == {"memory": 3, "threads": 1}
    assert found["complete"] is True
    assert not mine.exists()
    assert other.read_bytes() == before
    assert json.loads((base / "memory.json").read_text())["facts"] == []
    left = b"".join(one.read_bytes() for one in sorted(base.rglob("*")) if one.is_file())
    for text in ("Canary Ltd", "fact_a1b2c3d4", "在字节跳动担任后端开发工程师", THREAD):
        assert text.encode() not in left, text
