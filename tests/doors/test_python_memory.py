"""Long-term memory, sessions and stores from Python: what the commands print."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

import ckpt_cli
from ckpt_cli import Answer, MemoryHandle
from tests.kit.command import SAMPLE, ckpt
from tests.kit.memory.benches import SqliteBench
from tests.kit.memory.contents import ITEMS, fill
from tests.kit.savers.deerflow import fact, make, memory
from tests.kit.savers.deerflow import save as save_memory
from tests.kit.savers.redis_threads import fill_plain
from tests.kit.savers.sessions import ContextState, save

Ask = Callable[[MemoryHandle], Any]
FACT = "fact_a1b2c3d4"
DEER = "deer|python"

ANSWERS: list[tuple[str, Ask]] = [
    ("list --all", lambda one: one.items()),
    ("list facts --match fact_* --category goal", lambda one: one.items("facts", category="goal")),
    ("list --since 1h --min-confidence 0.92", lambda one: one.items(min_confidence=0.92)),
    ("list --source thread_abc123", lambda one: one.items(source="thread_abc123")),
    ("list --orphans", lambda one: one.items(orphans=True)),
    ("list --duplicates", lambda one: one.items(duplicates=True)),
    (f"show {FACT}", lambda one: one.show(FACT)),
    (f"show {FACT} --threads sample.db", lambda one: one.show(FACT, threads="sample.db")),
    ("show", lambda one: one.export()),
    ("export --match fact_*", lambda one: one.export(match="fact_*")),
    ("search DeerFlow", lambda one: one.search("DeerFlow")),
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


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with items of LangGraph's SqliteStore."""
    path = tmp_path / "memory.db"
    fill(SqliteBench(str(path)))
    return path


def as_json(answer: Any) -> Any:
    if isinstance(answer, Answer):
        return json.loads(json.dumps(answer.to_dict()))
    return [as_json(one) for one in answer]


@pytest.mark.parametrize("redact", [False, True], ids=["plain", "redacted"])
@pytest.mark.parametrize(("words", "ask"), ANSWERS, ids=[words for words, _ in ANSWERS])
def test_memory_answers_as_the_command_does(here: Path, words: str, ask: Ask, redact: bool) -> None:
    options = ["--redact"] if redact else []
    printed = ckpt("-s", here, *options, "-o", "json", "memory", *words.split()).json
    with ckpt_cli.open_memory(here, redact=redact) as opened:
        assert as_json(ask(opened)) == printed
    if not (redact and "--" in words):  # category and confidence are hidden, too
        assert printed


def test_a_value_is_read_by_its_namespace_and_key(file: Path) -> None:
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


def test_times_may_be_datetimes(file: Path) -> None:
    now = datetime.now(UTC)
    with ckpt_cli.open_memory(file) as opened:
        assert len(list(opened.items(since=now - timedelta(hours=1)))) == len(ITEMS)
        assert not list(opened.items(until=now - timedelta(hours=1)))


def test_a_listing_can_be_read_again_and_a_search_ends(file: Path) -> None:
    with ckpt_cli.open_memory(file) as opened:
        items, hits = opened.items("users"), opened.search("green tea")
        assert [one["key"] for one in items] == [one["key"] for one in items]
        assert [(hit["key"], hit["path"]) for hit in hits] == [("tea", "text")]
        assert list(hits) == []
        assert (hits.unread, hits.stopped, hits.missed) == (0, 0, "")


def test_what_a_search_could_not_read_is_told(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE store SET value = '{' WHERE key = 'profile'")
    with ckpt_cli.open_memory(file) as opened:
        hits = opened.search("tea")
        assert len(list(hits)) == 2  # a key and a text
        assert (hits.unread, hits.missed) == (2, "cannot read 2 values in full")


def test_redacted_memory_gives_no_bytes(file: Path) -> None:
    with ckpt_cli.open_memory(file, redact=True) as opened:
        assert opened.get("users/anna/profile") == ckpt_cli.Tagged("ckpt.redacted", "dict, 3 items")
        with pytest.raises(ckpt_cli.UsageError):
            opened.raw("users/anna/profile")


def test_threads_and_memory_in_one_file(file: Path) -> None:
    bench = SqliteBench(str(file))
    with bench.saver() as saver:
        saver.setup()
    with ckpt_cli.open(file) as store:
        assert store.memory.get("users/anna/profile")["text"] == "Anna"
        assert store.memory is store.memory
        memory_of = store.memory
    with pytest.raises(ckpt_cli.StoreUnavailable):
        memory_of.get("users/anna/profile")


def test_a_store_without_memory_says_so(sample: Path) -> None:
    with ckpt_cli.open(sample) as store, pytest.raises(ckpt_cli.UnknownLayout) as error:
        _ = store.memory
    assert "no long-term memory" in str(error.value)


@pytest.fixture
def url(redis_url: str) -> str:
    """A thread and three sessions that do not expire, since servers round the time to live."""
    fill_plain(redis_url, "trip")
    save(redis_url, ContextState("s1", "ann", "trip"))
    save(redis_url, ContextState("s2", "ann", "gone"))
    save(redis_url, ContextState("s2", "bob", "trip"))
    with redis.Redis.from_url(redis_url) as client:
        for key in client.scan_iter("research_context:*"):
            client.persist(key)
    return redis_url


@pytest.mark.parametrize("redact", [False, True], ids=["plain", "redacted"])
def test_sessions_are_those_of_the_command(url: str, redact: bool) -> None:
    def printed(*words: str) -> Any:
        options = ["--redact"] if redact else []
        return ckpt("-s", url, *options, "-o", "json", "memory", "sessions", *words).json

    with ckpt_cli.open(url, redact=redact) as store:
        assert as_json(store.sessions()) == printed()
        assert as_json(store.sessions(user="ann", thread="trip")) == printed(
            "--user", "ann", "--thread", "trip"
        )
        assert as_json(store.session("s1")) == printed("s1")
        with pytest.raises(ckpt_cli.Ambiguous):
            store.session("s2")


def test_stores_and_layouts_are_those_of_the_command(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
