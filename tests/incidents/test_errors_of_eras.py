"""`errors` agrees with the status of threads in stores of older versions and of LangGraph.js."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.command import ckpt, copy_store, eras


@pytest.mark.parametrize("era", [*eras()], ids=lambda path: path.name)
def test_errors_are_those_of_the_threads_with_this_status(era: Path, tmp_path: Path) -> None:
    store = copy_store(era / "store.db", tmp_path)
    listed = ckpt("-s", store, "threads", "list", "--long", "--all", "-o", "json").json
    failed = {row["thread_id"] for row in listed if "error" in row["conditions"]}
    found = ckpt("-s", store, "errors", "-o", "json").json
    assert {one["thread_id"] for one in found} == failed
    assert {one["state"] for one in found} == {"failed"}
    history = ckpt("-s", store, "errors", "--history", "-o", "json").json
    assert [one for one in history if one["state"] == "failed"] == found
    others = {(one["thread_id"], one["state"]) for one in history} - {
        (one["thread_id"], "failed") for one in found
    }
    names = {row["thread_id"] for row in listed}
    # These releases left no error behind when a task was retried with success.
    is_old = era.name in {"lg-0.2.14", "lg-0.2.14-json", "js-0.2.74"}
    expected = set() if is_old else {("error-retried", "retried"), ("error-handled", "handled")}
    assert others == {one for one in expected if one[0] in names}
