"""From a fact in a memory file to the message that caused it, and from a thread to its facts."""

import json
import shlex
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.postgres import PostgresSaver

import ckpt_cli
from tests.kit.cases import cases
from tests.kit.command import ckpt
from tests.kit.savers.deerflow import LATER, THREAD, TURNS, memory, save

GO, MOVE = "fact_a1b2c3d4", "fact_e5f6g7h8"


def origin(root: Path, key: str = GO, *more: str) -> Any:
    return ckpt("-s", root, "memory", "show", key, *more, "-o", "json").json["origin"]


def keys(root: Path, *words: str) -> list[str]:
    """The facts of a list."""
    found = ckpt("-s", root, "memory", "list", *words, "-o", "json").json
    return [one["key"] for one in found]


@pytest.mark.parametrize(("key", "turn"), [(GO, 0), (MOVE, 2)])
def test_a_fact_leads_to_the_message_that_caused_it(
    root: Path, store: Path, key: str, turn: int
) -> None:
    found = origin(root, key)
    assert (found["thread_id"], found["store"]) == (THREAD, str(store))
    message = found["message"]
    assert (message["content"], message["assumed"]) == (TURNS[turn], True)
    assert message["index"] == turn * 2


def test_the_checkpoint_is_as_of_the_creation_of_the_fact(root: Path, store: Path) -> None:
    then = ckpt(
        "-s", store, "messages", f"{THREAD}@{origin(root)['checkpoint_id']}", "-o", "json"
    ).json
    assert [one["content"] for one in then if one["role"] == "human"] == list(TURNS)
    now = ckpt("-s", store, "messages", THREAD, "-o", "json").json
    assert LATER in [one["content"] for one in now]
    # The text shows the sentence, and a command that reads on.
    answer = ckpt("-s", root, "memory", "show", MOVE)
    assert f"said     {TURNS[2]}" in answer.out
    assert "assumed" in answer.out
    (command,) = [one for one in answer.out.splitlines() if one.startswith("read ")]
    words = shlex.split(command)[1:]
    assert words[0] == "ckpt"
    again = ckpt(*words[1:])
    assert (again.code, TURNS[2] in again.out, LATER in again.out) == (0, True, False)


def test_the_whole_memory_reads_as_columns_of_a_terminal(root: Path) -> None:
    lines = ckpt("-s", root, "memory", "show").out.splitlines()
    assert lines[:3] == [
        "facts/",
        "  fact_a1b2c3d4  context  0.95  thread_abc123  在字节跳动担任后端开发工程师",
        "  fact_e5f6g7h8  goal     0.90  thread_abc123  计划将团队 CI/CD 迁移到 GitHub Actions",
    ]
    assert lines[4] == "user/"


@cases(
    "words expected",
    (["--source", THREAD], [GO, MOVE]),
    (["--source", "another"], []),
    (["--category", "goal"], [MOVE]),
    (["--min-confidence", "0.93"], [GO]),
    (["--orphans"], []),
)
def test_facts_are_selected(root: Path, words: list[str], expected: list[str]) -> None:
    assert keys(root, *words) == expected


SQLITE = "checkpointer:\n  type: sqlite\n  connection_string: "


@cases(
    "settings",
    f"{SQLITE}data/deerflow.db\n",
    f"{SQLITE}.deer-flow/data/deerflow.db\n",
    f"{SQLITE}$CHECKPOINTS\n",
    f"{SQLITE}$CHECKPOINTS\ndatabase: {{backend: memory}}\n",
    "models: []\n",
    "a: &a [1, 2]\nb: [*a, *a]\ndatabase: {backend: sqlite, sqlite_dir: ./.deer-flow/data}\n",
    None,
)
def test_deerflows_own_settings_name_the_checkpoints(
    root: Path, store: Path, settings: str | None
) -> None:
    (root / ".env").write_text(f"# a comment\nexport CHECKPOINTS='{store}'\n")
    config = root / "config.yaml"
    if settings is None:
        config.unlink()
    else:
        config.write_text(settings)
    found = origin(root)
    assert Path(found["store"]).resolve() == store
    assert "message" in found


def test_the_settings_may_lie_above_the_folder_or_be_named(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = root / "backend"
    inner.mkdir()
    (root / ".deer-flow").rename(inner / ".deer-flow")
    assert "message" in origin(inner)
    elsewhere = root / "elsewhere.yaml"
    (root / "config.yaml").rename(elsewhere)
    monkeypatch.setenv("DEER_FLOW_CONFIG_PATH", str(elsewhere))
    elsewhere.write_text("checkpointer: {type: memory}\n")
    assert "in memory only" in origin(inner)["remark"]


@cases(
    "settings why",
    ("checkpointer: {type: memory}\n", "in memory only"),
    ("checkpointer: {type: sqlite, connection_string: $NOT_SET}\n", "'NOT_SET' is not set"),
    ("database: {backend: postgres}\n", "no connection string"),
    ("checkpointer: {type: oracle, connection_string: x}\n", "unknown type 'oracle'"),
    ("a: [\n", "not YAML at line 2"),
    ("- " * 3000, "nested too deeply"),
    ("checkpointer: {type: sqlite, connection_string: gone.db}\n", "no such file"),
)
def test_what_cannot_be_told_is_said(root: Path, settings: str, why: str) -> None:
    (root / "config.yaml").write_text(settings)
    found = origin(root)
    assert found["checkpoint_id"] is None
    assert why in found["remark"]
    assert ckpt("-s", root, "memory", "show", GO).code == 0


def test_threads_that_are_not_found_are_asked_for_by_the_right_option(root: Path) -> None:
    (root / "config.yaml").write_text("database: {backend: postgres}\n")
    threads = ckpt("-s", root, "threads", "list").err
    assert ("with -s" in threads, "--threads" in threads) == (True, False)
    orphans = ckpt("-s", root, "memory", "list", "--orphans").err
    assert orphans.count("--threads STORE") == 1


def test_checkpoints_on_postgres_are_found_by_the_settings(
    root: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PostgresSaver.from_conn_string(postgres_url) as saver:
        saver.setup()
    (root / "config.yaml").write_text(
        "database:\n  backend: postgres\n  postgres_url: $DATABASE_URL\n  postgres_schema: public\n"
    )
    monkeypatch.setenv("DATABASE_URL", postgres_url)
    assert "'DATABASE_URL' is not set in .env" in origin(root)["remark"]
    (root / ".env").write_text(f"DATABASE_URL={postgres_url}\n")
    assert "names a server" in origin(root)["remark"]
    monkeypatch.setenv("DEER_FLOW_CONFIG_PATH", str(root / "config.yaml"))
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
    missing = ckpt("-s", root, "memory", "show", GO, "--threads", "no.db")
    assert missing.code == 4


def test_a_thread_that_is_gone_is_told_and_found(root: Path, store: Path) -> None:
    assert ckpt("-s", store, "threads", "delete", THREAD, "--yes").code == 0
    assert f"no thread '{THREAD}'" in origin(root)["remark"]
    found = ckpt("-s", root, "memory", "list", "--orphans", "-o", "json").json
    assert [(one["key"], one["orphan"]) for one in found] == [(GO, True), (MOVE, True)]
    assert "thread missing" in ckpt("-s", root, "memory", "list", "-o", "table", "--orphans").out


def test_facts_without_a_thread_have_no_origin_and_are_no_orphans(base: Path) -> None:
    data = memory()
    data["facts"][0]["source"] = "manual"
    del data["facts"][1]["source"]
    save(base / "memory.json", data)
    for key in (GO, MOVE):
        assert "origin" not in ckpt("-s", base, "memory", "show", key, "-o", "json").json
    assert keys(base, "--orphans") == []


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
    save(base / "memory.json", data)
    unsaid = origin(base)
    assert ("message" in unsaid, unsaid["human_messages"]) == (False, 4)
    assert "shares a word" in unsaid["remark"]


def test_a_thread_shows_what_is_remembered_from_it(root: Path, store: Path) -> None:
    shown = ckpt("-s", store, "show", "--long", THREAD, "-o", "json").json
    assert [one["key"] for one in shown["memories"]] == [GO, MOVE]
    text = ckpt("-s", store, "show", "--long", THREAD).out
    assert "在字节跳动担任后端开发工程师" in text
    assert ckpt("-s", store, "show", "--long", "another", "-o", "json").json["memories"] == []
    elsewhere = root / "copy.db"
    elsewhere.write_bytes(store.read_bytes())
    assert "memories" not in ckpt("-s", elsewhere, "show", "--long", THREAD, "-o", "json").json
    named = ckpt("-s", elsewhere, "show", "--long", THREAD, "--memory", root, "-o", "json").json
    assert named["memories"] == shown["memories"]
    with ckpt_cli.open(elsewhere) as opened:
        assert opened[THREAD].memories() is None
        assert opened[THREAD].memories(str(root)) == shown["memories"]


def test_a_purge_reports_the_memories_whose_source_it_removes(base: Path, store: Path) -> None:
    before = (base / "memory.json").read_bytes()
    dry = ckpt("-s", store, "purge", "--match", "*", "--dry-run", "-o", "json").json
    assert [one["key"] for one in dry["memories"]] == [GO, MOVE]
    pruned = ckpt("-s", store, "purge", "--keep-last", "1", "--dry-run", "-o", "json").json
    assert pruned["memories"] == []
    answer = ckpt("-s", store, "threads", "delete", "another", "--yes", "-o", "json").json
    assert answer["memories"] == []
    done = ckpt("-s", store, "purge", "--match", "thread_*", "--yes")
    assert "fact_a1b2c3d4 came from thread_abc123" in done.out
    assert (base / "memory.json").read_bytes() == before


def test_a_broken_memory_beside_the_threads_stops_nothing(base: Path, store: Path) -> None:
    (base / "memory.json").write_text("{")
    answer = ckpt("-s", store, "show", "--long", THREAD, "-o", "json")
    assert answer.code == 0
    assert "memories" not in answer.json
    assert "cannot read the memory next to this store" in answer.err
    assert ckpt("-s", store, "show", "--long", THREAD, "--memory", base).code == 4


def test_values_are_not_shown_with_redact(root: Path, store: Path) -> None:
    lines: list[list[str | Path]] = [
        ["-s", root, "memory", "show"],
        ["-s", root, "memory", "show", GO],
        ["-s", root, "memory", "list"],
        ["-s", root, "memory", "list", "--duplicates", "--orphans"],
        ["-s", root, "memory", "edit", GO, "--set", "category=goal"],
        ["-s", store, "show", "--long", THREAD],
        ["-s", store, "purge", "--match", "*", "--dry-run"],
    ]
    for line in lines:
        for form in ("table", "json", "tsv"):
            answer = ckpt(*line, "--redact", "-o", form)
            assert answer.code == 0, answer.err
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
    message = found["message"]
    assert "后端开发" in message["content"]
    assert "origin" not in ckpt("-s", store, "memory", "show", "tea", "-o", "json").json


def test_a_purge_of_many_threads_looks_at_the_memory_once(base: Path, store: Path) -> None:
    """Threads that go, and threads that a rule keeps: only the first leave facts behind."""
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE checkpoints SET thread_id = 'other' WHERE thread_id = 'another'")
    data = json.loads((base / "memory.json").read_text(encoding="utf-8"))
    data["facts"][0]["source"] = "other"
    save(base / "memory.json", data)
    dry = ckpt("-s", store, "purge", "--match", "*", "--protect", "o*", "--dry-run", "-o", "json")
    assert [one["key"] for one in dry.json["memories"]] == [MOVE]
