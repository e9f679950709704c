"""LangGraph.js itself resumes a fork on a server, and both branches keep their values."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.registry import open_store
from tests.kit.command import ckpt

SCRIPT = Path(__file__).parent / "branches.mjs"


@pytest.fixture(scope="session")
def library(langgraph_js: Path) -> Path:
    shutil.copy(SCRIPT, langgraph_js)
    return langgraph_js


def run(library: Path, verb: str, url: str, config: dict[str, str], word: str = "") -> Any:
    done = subprocess.run(
        ["node", SCRIPT.name, verb, url, json.dumps(config), word],
        cwd=library,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


OLD = {"items": ["in", "a-old", "b-old"], "note": "note-old"}
NEW = {"items": ["in", "a-new", "b-new"], "note": "note-new"}


THREAD = {"thread_id": "t", "checkpoint_ns": ""}
URLS = {"postgres": "postgres_url", "redis": "redis_stack_url", "mongodb": "mongodb_url"}


@pytest.fixture(params=URLS)
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(URLS[request.param])
    return found


@pytest.mark.nightly
def test_both_branches_keep_their_values(library: Path, url: str) -> None:
    assert run(library, "drive", url, THREAD, "old") == OLD
    old = run(library, "read", url, THREAD)
    assert ckpt("-s", url, "rollback", "t", "step:0", "--dry-run").code == 0
    record = ckpt("-s", url, "rollback", "t", "step:0", "--yes", "-o", "json").json
    new_head = run(library, "read", url, THREAD)
    assert new_head["id"] == record["checkpoint_id"]
    assert new_head["next"] == record["next"] == ["a"]
    assert run(library, "resume", url, record["configurable"], "new") == NEW
    assert run(library, "read", url, THREAD)["values"] == NEW
    assert run(library, "read", url, {**THREAD, "checkpoint_id": old["id"]}) == old
    # A second fork, beside the first, keeps them apart too.
    record = ckpt("-s", url, "rollback", "t", record["forked_from"], "--yes", "-o", "json")
    third = {"items": ["in", "a-third", "b-third"], "note": "note-third"}
    assert run(library, "resume", url, record.json["configurable"], "third") == third
    assert run(library, "read", url, THREAD)["values"] == third
    assert run(library, "read", url, {**THREAD, "checkpoint_id": old["id"]}) == old


@pytest.mark.nightly
def test_an_edited_fork_resumes_with_the_edit_alone(library: Path, url: str) -> None:
    run(library, "drive", url, THREAD, "old")
    old = run(library, "read", url, THREAD)
    fork = ("-s", url, "fork", "t", "step:1", "--yes", "-o", "json")
    record = ckpt(*fork, "--replace", 'items=["put"]', "--set", 'note="set"').json
    assert run(library, "read", url, THREAD)["values"] == {"items": ["put"], "note": "set"}
    ended = run(library, "resume", url, record["configurable"], "new")
    assert ended == {"items": ["put", "b-new"], "note": "set"}
    assert run(library, "read", url, {**THREAD, "checkpoint_id": old["id"]}) == old
    grown = ckpt(*fork, "--append", 'items="more"')
    ended = run(library, "resume", url, grown.json["configurable"], "third")
    assert ended == {"items": ["in", "a-old", "more", "b-third"], "note": "note-old"}
    assert run(library, "read", url, {**THREAD, "checkpoint_id": old["id"]}) == old


@pytest.mark.nightly
def test_what_is_undone_purged_or_removed_is_gone_for_the_library(library: Path, url: str) -> None:
    configs = {name: {"thread_id": name, "checkpoint_ns": ""} for name in ("t", "T", "tt")}
    for config in configs.values():
        run(library, "drive", url, config, "old")
    before = {name: rows(url, name) for name in configs}
    for remove in (("purge", "--match", "t", "--yes"), ()):
        assert ckpt("-s", url, "rollback", "t", "step:0", "--yes").code == 0
        assert ckpt("-s", url, "undo", "t", "--yes").code == 0
        assert rows(url, "t") == before["t"]
        record = ckpt("-s", url, "rollback", "t", "step:0", "--yes", "-o", "json").json
        assert run(library, "resume", url, record["configurable"], "new") == NEW
        if remove:
            assert ckpt("-s", url, *remove).code == 0
        else:  # the library removes what was forked, too
            run(library, "forget", url, THREAD)
        assert run(library, "left", url, THREAD) == {"listed": 0, "head": None}
        assert rows(url, "t") == []
        run(library, "drive", url, THREAD, "old")
        before["t"] = rows(url, "t")
    for name in ("T", "tt"):
        assert rows(url, name) == before[name]


def rows(url: str, thread_id: str) -> list[str]:
    with open_store(url) as store:
        return sorted(repr((row.table, sorted(row.cells.items()))) for row in store.rows(thread_id))
