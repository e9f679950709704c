"""Saved plans of repairs, of other keys, and of long-term memory."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.kit.command import FIXTURES, ckpt, copy_store
from tests.kit.encrypted import KEY, NEW
from tests.kit.memory.benches import SqliteBench
from tests.kit.memory.contents import exported, fill
from tests.kit.savers.deerflow import memory, save
from tests.repair.test_command import BROKEN, graph, path, results

__all__ = ["graph", "path"]  # fixtures


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return tmp_path / "plan.ndjson"


def contents(store: Path) -> list[str]:
    with closing(sqlite3.connect(store)) as connection:
        return list(connection.iterdump())


def applied(store: Path | str, plan: Path, *words: str | Path) -> int:
    answer = ckpt("-s", store, "apply", plan, "--yes", *words)
    assert answer.code in {0, 6}, answer.err
    return answer.code


@pytest.mark.parametrize("words", [["--all"], [*BROKEN], ["left"]], ids=" ".join)
def test_repairs_get_the_ids_of_the_plan(
    graph: Any, path: Path, plan: Path, words: list[str]
) -> None:
    before = contents(path)
    assert ckpt("-s", path, "repair", "messages", *words, "--plan-out", plan).code == 0
    assert contents(path) == before
    planned = [json.loads(line) for line in plan.read_text().splitlines()[1:-1]]
    assert applied(path, plan) == 0
    for one in planned:
        assert results(graph, one["thread_id"])["call-book"].status == "error"
        (added,) = one["adds"]
        config = graph.get_state({"configurable": {"thread_id": one["thread_id"]}}).config
        assert config["configurable"]["checkpoint_id"] == added
    once = contents(path)
    assert applied(path, plan) == 6
    assert contents(path) == once


def test_one_thread_that_moved_stops_the_repair_of_all(graph: Any, path: Path, plan: Path) -> None:
    assert ckpt("-s", path, "repair", "messages", "--all", "--plan-out", plan).code == 0
    graph.update_state({"configurable": {"thread_id": "left"}}, {"messages": []}, as_node="agent")
    before = contents(path)
    assert applied(path, plan) == 6
    assert contents(path) == before


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    old, new = tmp_path / "old.key", tmp_path / "new.key"
    old.write_bytes(KEY)
    old.chmod(0o600)
    new.write_bytes(NEW)
    new.chmod(0o600)
    return old, new


def test_a_plan_holds_no_key_and_takes_no_other(
    tmp_path: Path, plan: Path, keys: tuple[Path, Path]
) -> None:
    store = copy_store(FIXTURES / "lg-1.2.22-serde" / "store.db", tmp_path)
    old, new = keys
    words = ("-s", store, "--aes-key-file", old)
    before = contents(store)
    rekey = ("rekey", "aes-chat", "--new-key-file", new)
    assert ckpt(*words, *rekey, "--plan-out", plan).code == 0
    text = plan.read_bytes()
    assert KEY not in text
    assert NEW not in text
    assert str(new) not in str(json.loads(text.splitlines()[0])["options"])
    missing = ckpt(*words, "apply", plan, "--yes")
    assert (missing.code, "--new-key-file" in missing.err) == (2, True)
    other = tmp_path / "other.key"
    other.write_bytes(NEW[::-1])
    other.chmod(0o600)
    assert ckpt(*words, "apply", plan, "--yes", "--new-key-file", other).code == 6
    assert contents(store) == before
    assert ckpt(*words, "apply", plan, "--yes", "--new-key-file", new).code == 0
    done = contents(store)
    assert done != before
    again = ckpt(*words, "apply", plan, "--yes", "--new-key-file", new)
    assert again.code == 6, again.err
    assert contents(store) == done


def test_a_copy_of_encrypted_values_is_planned(
    tmp_path: Path, plan: Path, keys: tuple[Path, Path]
) -> None:
    store = copy_store(FIXTURES / "lg-1.2.22-serde" / "store.db", tmp_path)
    words = ("-s", store, "--aes-key-file", keys[0])
    assert ckpt(*words, "rollback", "aes-chat", "--steps", "1", "--plan-out", plan).code == 0
    assert ckpt(*words, "apply", plan, "--yes").code == 0
    assert ckpt(*words, "apply", plan, "--yes").code == 6


@pytest.fixture
def bench(tmp_path: Path) -> SqliteBench:
    found = SqliteBench(str(tmp_path / "memory.db"))
    fill(found)
    return found


def test_items_are_deleted_copied_and_restored_by_plans(
    bench: SqliteBench, tmp_path: Path, plan: Path
) -> None:
    url, archive, other = bench.url, tmp_path / "archive", SqliteBench(str(tmp_path / "to.db"))
    before = exported(bench)

    def saved(*words: str | Path) -> None:
        answer = ckpt("-s", url, "memory", *words, "--plan-out", plan)
        assert answer.code == 0, answer.err
        assert exported(bench) == there

    there = before
    saved("copy", "--to", other.url, "--create")
    assert applied(url, plan) == 0
    assert exported(other).keys() == before.keys()
    assert applied(url, plan) == 6

    saved("delete", "--namespace", "users/anna", "--all", "--archive", archive)
    assert not archive.exists()
    assert applied(url, plan) == 0
    there = exported(bench)
    assert there.keys() < before.keys()
    assert applied(url, plan) == 6

    saved("import", *archive.iterdir())
    assert applied(url, plan) == 0
    assert exported(bench) == before
    assert applied(url, plan) == 6


def test_an_item_that_changed_is_not_deleted(bench: SqliteBench, plan: Path) -> None:
    words = ("memory", "delete", "users/anna/profile", "--plan-out", plan)
    assert ckpt("-s", bench.url, *words).code == 0
    with bench.store() as store:
        store.put(("users", "anna"), "profile", {"text": "another"})
    before = exported(bench)
    assert applied(bench.url, plan) == 6
    assert exported(bench) == before


def test_an_edit_is_planned(tmp_path: Path, plan: Path) -> None:
    found = tmp_path / ".deer-flow" / "memory.json"
    save(found, memory())
    before = found.read_bytes()
    key = memory()["facts"][0]["id"]
    edit = ("memory", "edit", key, "--set", "category=goal", "--write")
    assert ckpt("-s", found, *edit, "--plan-out", plan).code == 0
    assert ckpt("-s", found, "apply", plan, "--dry-run").code == 0
    assert ckpt("-s", found, "apply", plan).code == 5
    assert found.read_bytes() == before
    assert applied(found, plan) == 0
    assert json.loads(found.read_bytes())["facts"][0]["category"] == "goal"
    assert applied(found, plan) == 6
