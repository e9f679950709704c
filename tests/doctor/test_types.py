"""`ckpt doctor --types` lists exactly what strict mode blocks, and runs nothing of it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.security.corpus import build_store, hostile_rows
from tests.support import FIXTURES, ROOT, ckpt, copy_store

ZOO = FIXTURES / "lg-1.2.22" / "store.db"
STRICT = "LANGGRAPH_STRICT_MSGPACK"


def types_of(store: Path | str, *words: str) -> dict[str, Any]:
    copy = ["--copy"] if isinstance(store, Path) else []
    answer = ckpt("-s", store, *copy, "doctor", "--types", "-o", "json", *words)
    assert answer.code in {0, 1}, answer.err
    found: dict[str, Any] = json.loads(answer.out)
    return found


def load(store: Path | str, allowed: Any, *, strict: bool) -> dict[str, Any]:
    """Load all values in a process of its own, through LangGraph's saver."""
    environment = {name: text for name, text in os.environ.items() if name != STRICT}
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "tests" / "doctor" / "strict_loading.py"),
            str(store),
            json.dumps(allowed),
        ],
        env=environment | ({STRICT: "true"} if strict else {}),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check_against_the_saver(store: Path | str) -> None:
    found = types_of(store)
    allowed = found["allowed_msgpack_modules"]
    named = {one["type"] for one in found["types"] if one["blocked"]}
    assert len(named) >= 5
    plain, strict = load(store, allowed, strict=False), load(store, allowed, strict=True)
    assert plain["default"]["blocked"] == []
    for way in ("allowed", "with_allowlist"):
        assert strict[way]["blocked"] == []
        assert strict[way]["values"] == plain["default"]["values"]
    assert set(strict["default"]["blocked"]) == named
    assert named <= set(plain["default"]["types"])
    assert named.isdisjoint(strict["default"]["types"])


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The threads that LangGraph's saver filled with many types."""
    store = copy_store(ZOO, tmp_path_factory.mktemp("zoo"))
    with closing(sqlite3.connect(store)) as db, db:
        for table in ("checkpoints", "writes"):
            db.execute(f"DELETE FROM {table} WHERE thread_id NOT LIKE 'zoo-%'")
    return store


def test_the_printed_list_is_what_strict_mode_needs(zoo: Path) -> None:
    check_against_the_saver(zoo)


@pytest.mark.engines
def test_it_is_also_what_strict_mode_needs_on_postgresql(zoo: Path, postgres_url: str) -> None:
    copied = subprocess.run(
        [sys.executable, "-m", "tests.doctor.copying", str(zoo), postgres_url],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert copied.returncode == 0, copied.stderr.decode()
    check_against_the_saver(postgres_url)


def test_each_value_is_counted_once_and_placed_where_it_is_first(tmp_path: Path) -> None:
    """A message that stays in the state for many steps is one value for each version of it."""
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.sqlite import SqliteSaver

    store = tmp_path / "store.db"
    with closing(sqlite3.connect(store, check_same_thread=False)) as db:
        saver = SqliteSaver(db)
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        ids = []
        for step in range(4):
            version = "1" if step < 3 else "2"
            body = empty_checkpoint() | {
                "channel_values": {"at": Decimal(step // 3), "path": Path("x")},
                "channel_versions": {"at": version, "path": "1"},
            }
            config = saver.put(config, body, {"step": step}, {})
            ids.append(config["configurable"]["checkpoint_id"])
            saver.put_writes(config, [("at", Decimal(9))], "task", "")
    found = {one["type"]: one for one in types_of(store)["types"]}
    assert {name: one["count"] for name, one in found.items()} == {
        "decimal.Decimal": 2 + 4,
        "pathlib.PosixPath": 1,
    }
    at = ("thread_id", "checkpoint_ns", "checkpoint_id", "channel")
    assert [found["pathlib.PosixPath"][key] for key in at] == ["t", "", ids[0], "path"]


def test_the_table_ends_with_python_code_that_runs(zoo: Path) -> None:
    answer = ckpt("-s", zoo, "--copy", "doctor", "--types", "-o", "table")
    assert "6 warnings" in answer.out
    code = answer.out[answer.out.index("allowed_msgpack_modules = [") :]
    names: dict[str, Any] = {}
    exec(code.partition("serde =")[0], names)
    listed = [tuple(one) for one in types_of(zoo)["allowed_msgpack_modules"]]
    assert names["allowed_msgpack_modules"] == listed
    assert ("zoo_types", "Order") in listed


def test_blocked_types_are_reported_only_in_strict_mode(
    zoo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ckpt("-s", zoo, "--copy", "doctor", "-o", "json")
    assert json.loads(found.out)["findings"] == []
    assert "types" not in json.loads(found.out)
    several = types_of(zoo, "--jobs", "2")
    assert several == types_of(zoo)
    blocked = [one["detail"] for one in several["findings"]]
    assert len(blocked) == 6
    assert {one["code"] for one in several["findings"]} == {"type-blocked"}
    assert all(one["severity"] == "warning" for one in several["findings"])
    monkeypatch.setenv(STRICT, "true")
    assert types_of(zoo) == several
    assert ckpt("-s", zoo, "--copy", "doctor", "--types", "--strict", "-o", "json").code == 1


@pytest.mark.parametrize("store", ["lg-0.2.70", "lg-1.0.10", "js-1.7.3"])
def test_nothing_is_dangerous_in_stores_of_any_era(store: str) -> None:
    found = types_of(FIXTURES / store / "store.db")
    assert "type-dangerous" not in {one["code"] for one in found["findings"]}
    assert not any(one["dangerous"] for one in found["types"])


def test_what_cannot_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FIXTURES / "lg-1.2.22-serde" / "store.db"
    answer = ckpt("-s", store, "--copy", "doctor", "--types", "-o", "json")
    assert answer.code == 7
    found = json.loads(answer.out)
    assert not found["complete"]
    assert "aes-chat" in {one["thread_id"] for one in found["unchecked"]}
    key = json.loads((store.parent / "truth.json").read_text())["aes_key"]
    monkeypatch.setenv("LANGGRAPH_AES_KEY", key)
    assert types_of(store)["complete"]


def test_hostile_values_are_named_and_nothing_of_them_runs(tmp_path: Path) -> None:
    marker = tmp_path / "payload-ran"
    some = ("ext ", "lc ", "pickle", "js")
    rows = [one for one in hostile_rows(marker) if one.name.partition(": ")[2].startswith(some)]
    rows = [one for one in rows if isinstance(one.data, bytes) and len(one.data) < 10_000]
    store = tmp_path / "store.db"
    build_store(store, rows)
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, str(store)], cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout.splitlines()[-1])
    assert not marker.exists()
    assert not {"antigravity", "this", "langgraph", "langchain_core"} & set(found["modules"])
    named = {
        (one["thread_id"], one["channel"])
        for one in found["answer"]["findings"]
        if one["code"] == "type-dangerous"
    }
    assert ("hostile state: ext 0 os.system", "evil") in named
    assert ("hostile write: pickle 4 os.system", "answer") in named
    assert ("hostile write: lc 2 os.mkdir", "answer") in named
    assert len(named) > 50
    assert not {"os", "posix"} & {
        module for module, _ in found["answer"]["allowed_msgpack_modules"]
    }


WATCHED = """
import json, sys
from tests.support import ckpt
answer = ckpt("-s", sys.argv[1], "doctor", "--types", "-o", "json")
print(json.dumps({"answer": json.loads(answer.out), "modules": sorted(sys.modules)}))
"""
