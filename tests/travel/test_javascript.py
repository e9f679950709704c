"""LangGraph.js itself resumes a fork on PostgreSQL, and both branches keep their values."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.restore import restore_rows
from tests.support import FIXTURES, ckpt
from tests.travel.test_eras import JAVASCRIPT, check_javascript, root_history, some

SCRIPT = Path(__file__).parent / "branches.mjs"
PACKAGES = ("core", "langgraph", "langgraph-checkpoint", "langgraph-checkpoint-postgres")


@pytest.mark.parametrize("era", JAVASCRIPT)
def test_postgres_stores_of_javascript(era: str, postgres_url: str) -> None:
    """The library told what it read of the target; that holds of the new head."""
    restore_rows(FIXTURES / era / "postgres.jsonl.gz", postgres_url)
    history = root_history(era, "postgres.truth.json")
    answers = {}
    for thread_id, checkpoint_id in some(history):
        words = ["rollback", "--at", checkpoint_id, "--yes", "-o", "json", "--", thread_id]
        answer = ckpt("-s", postgres_url, *words)
        assert answer.code == 0, (thread_id, answer.err)
        answers[thread_id, checkpoint_id] = answer.json
    check_javascript(postgres_url, history, answers)
    for thread_id, _ in answers:
        assert ckpt("-s", postgres_url, "undo", "--yes", "--", thread_id).code == 0


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which node finds LangGraph.js: `CKPT_TEST_JS`, or one that npm fills now."""
    given = os.environ.get("CKPT_TEST_JS")
    folder = tmp_path_factory.mktemp("js")
    if given is not None:
        (folder / "node_modules").symlink_to(Path(given) / "node_modules")
    else:
        if shutil.which("npm") is None:
            pytest.fail("npm is not installed: it brings LangGraph.js; or set CKPT_TEST_JS")
        wanted = json.loads((FIXTURES / "make/js/js-1.7.3/package.json").read_text())
        chosen = {f"@langchain/{name}" for name in PACKAGES}
        kept = {name: v for name, v in wanted["dependencies"].items() if name in chosen}
        (folder / "package.json").write_text(json.dumps({**wanted, "dependencies": kept}))
        subprocess.run(["npm", "install", "--no-audit", "--no-fund"], cwd=folder, check=True)
    shutil.copy(SCRIPT, folder)
    return folder


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


@pytest.mark.slow
def test_both_branches_keep_their_values(library: Path, postgres_url: str) -> None:
    thread = {"thread_id": "t", "checkpoint_ns": ""}
    assert run(library, "drive", postgres_url, thread, "old") == OLD
    old = run(library, "read", postgres_url, thread)
    assert ckpt("-s", postgres_url, "rollback", "t", "step:0", "--dry-run").code == 0
    record = ckpt("-s", postgres_url, "rollback", "t", "step:0", "--yes", "-o", "json").json
    new_head = run(library, "read", postgres_url, thread)
    assert new_head["id"] == record["checkpoint_id"]
    assert new_head["next"] == record["next"] == ["a"]
    assert run(library, "resume", postgres_url, record["configurable"], "new") == NEW
    assert run(library, "read", postgres_url, thread)["values"] == NEW
    assert run(library, "read", postgres_url, {**thread, "checkpoint_id": old["id"]}) == old
    # A second fork, beside the first, keeps them apart too.
    record = ckpt("-s", postgres_url, "rollback", "t", record["forked_from"], "--yes", "-o", "json")
    third = {"items": ["in", "a-third", "b-third"], "note": "note-third"}
    assert run(library, "resume", postgres_url, record.json["configurable"], "third") == third
    assert run(library, "read", postgres_url, thread)["values"] == third
    assert run(library, "read", postgres_url, {**thread, "checkpoint_id": old["id"]}) == old


@pytest.mark.slow
def test_the_library_itself_loses_one(library: Path, postgres_url: str) -> None:
    """So that the lift of a version stays as long as it is needed, and no longer."""
    thread = {"thread_id": "t", "checkpoint_ns": ""}
    run(library, "drive", postgres_url, thread, "old")
    rows = ckpt("-s", postgres_url, "history", "t", "-o", "json").json
    target = next(one["checkpoint_id"] for one in rows if one["step"] == 0)
    resumed = run(library, "resume", postgres_url, {**thread, "checkpoint_id": target}, "new")
    assert resumed == NEW
    assert run(library, "read", postgres_url, thread)["values"] != NEW
