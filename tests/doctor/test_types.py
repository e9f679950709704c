"""`ckpt doctor --types` lists exactly what strict mode blocks, and runs nothing of it."""

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
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from tests.kit.command import FIXTURES, ROOT, ckpt, copy_store
from tests.kit.hostile.corpus import HOSTILE_ID, TASK_ID, build_store, hostile_rows

ZOO = FIXTURES / "lg-1.2.22" / "store.db"


def types_of(store: Path | str, *words: str) -> dict[str, Any]:
    copy = ["--copy"] if isinstance(store, Path) else []
    answer = ckpt("-s", store, *copy, "doctor", "--types", "-o", "json", *words)
    assert answer.code in {0, 1}, answer.err
    found: dict[str, Any] = json.loads(answer.out)
    return found


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The threads that LangGraph's saver filled with many types."""
    store = copy_store(ZOO, tmp_path_factory.mktemp("zoo"))
    with closing(sqlite3.connect(store)) as db, db:
        for table in ("checkpoints", "writes"):
            db.execute(f"DELETE FROM {table} WHERE thread_id NOT LIKE 'zoo-%'")
    return store


STRICTLY = """
import json, sqlite3, sys
from langgraph.checkpoint.serde.event_hooks import register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
store, allowed, *sys.path[:0] = sys.argv[1:]
blocked = []
register_serde_event_listener(blocked.append)
found = []
for some in (None, [tuple(one) for one in json.loads(allowed)]):
    blocked.clear()
    serde = JsonPlusSerializer(allowed_msgpack_modules=some) if some else None
    list(SqliteSaver(sqlite3.connect(store), serde=serde).list(None))
    kept = [one for one in blocked if one["kind"] != "msgpack_unregistered_allowed"]
    found.append(sorted({f"{one['module']}.{one['name']}" for one in kept}))
print(json.dumps(found))
"""
"""Loads all values by LangGraph's own saver. Prints what it blocks, and what with the list."""


def test_the_printed_list_is_what_strict_mode_needs(zoo: Path) -> None:
    told = types_of(zoo)
    named = sorted(one["type"] for one in told["types"] if one["blocked"])
    assert len(named) >= 5
    folder = ROOT / "backends/ckpt_backends/testing/scenarios/stored_types"
    words = [str(zoo), json.dumps(told["allowed_msgpack_modules"]), str(ROOT), str(folder)]
    done = subprocess.run(
        [sys.executable, "-c", STRICTLY, *words],
        env={**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout) == [named, []]


def store_of(path: Path, *bodies: tuple[dict[str, Any], dict[str, str]]) -> list[str]:
    """Store a thread of these values and versions. Return the ids of its checkpoints."""
    ids = []
    with closing(sqlite3.connect(path, check_same_thread=False)) as db:
        saver = SqliteSaver(db, serde=JsonPlusSerializer(pickle_fallback=True))
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        for step, (values, versions) in enumerate(bodies):
            body: Any = {"channel_values": values, "channel_versions": versions}
            metadata: Any = {"step": step, "source": "loop"}
            config = saver.put(config, empty_checkpoint() | body, metadata, {})
            saver.put_writes(config, [("at", Decimal(9))], "task", "")
            ids.append(config["configurable"]["checkpoint_id"])
    return ids


def test_each_value_is_counted_once_and_placed_where_it_is_first(tmp_path: Path) -> None:
    """A message that stays in the state for many steps is one value for each version of it."""
    store = tmp_path / "store.db"
    ids = store_of(
        store,
        *(
            ({"at": Decimal(step // 3), "path": Path("x")}, {"at": str(step // 3), "path": "1"})
            for step in range(4)
        ),
    )
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


def test_what_cannot_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FIXTURES / "lg-1.2.22-serde" / "store.db"
    found = json.loads(ckpt("-s", store, "--copy", "doctor", "--types", "-o", "json", code=7).out)
    assert not found["complete"]
    assert "aes-chat" in {one["thread_id"] for one in found["unchecked"]}
    key = json.loads((store.parent / "truth.json").read_text())["aes_key"]
    monkeypatch.setenv("LANGGRAPH_AES_KEY", key)
    assert types_of(store)["complete"]


HOSTILE = {
    "state: ext 0 os.system": ("evil", None, "os.system"),
    "state: lc 2 os.mkdir": ("evil", None, "os.mkdir"),
    "write: ext 2": ("answer", TASK_ID, "os.mkdir"),
    "write: pickle 4 os.system": ("answer", TASK_ID, "posix.system"),
    "metadata: envelope": (None, None, "os.mkdir"),
}


def test_a_dangerous_value_is_found_exactly_where_it_is(tmp_path: Path) -> None:
    rows = [one for one in hostile_rows(tmp_path / "marker") if one.name in HOSTILE]
    assert len(rows) == len(HOSTILE)
    store = tmp_path / "store.db"
    build_store(store, rows)
    for words in ([], ["--deep"], ["--types"]):
        answer = ckpt("-s", store, "doctor", *words, "-o", "json", code=1)
        found = {
            one["thread_id"]: (one["channel"], one["task_id"], one["checkpoint_id"], one["detail"])
            for one in json.loads(answer.out)["findings"]
            if one["code"] == "type-dangerous"
        }
        # Writes are read only if everything is; of a head, the control values.
        expected = {
            f"hostile {name}": (channel, task_id, HOSTILE_ID, f"decoding it would call {called}")
            for name, (channel, task_id, called) in HOSTILE.items()
            if words or task_id is None
        }
        assert found == expected
        assert answer.out.count('"type-dangerous"') == len(expected)


def test_a_value_in_many_checkpoints_is_reported_once(tmp_path: Path) -> None:
    """It is found at the oldest one, and without --deep at the head, which an agent loads."""
    store = tmp_path / "store.db"
    ids = store_of(store, ({}, {}), *[({"evil": Opening("x")}, {"evil": "1"})] * 4)
    for words, at in (([], ids[-1]), (["--deep"], ids[1]), (["--types"], ids[1])):
        found = [
            (one["checkpoint_id"], one["channel"])
            for one in json.loads(ckpt("-s", store, "doctor", *words, "-o", "json").out)["findings"]
            if one["code"] == "type-dangerous"
        ]
        assert found == [(at, "evil")]


class Opening:
    """Only pickle can store it, and unpickling it opens a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.path,)
