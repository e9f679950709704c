"""Every command's JSON, on every store, held against what the official library says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.conftest import Filled
from tests.conformance.truth import canonical, text
from tests.support import Answer, ckpt

HOSTILE = "hostile-id"


def run(filled: Filled, *words: str) -> Answer:
    return ckpt("-s", filled.bench.url, *words)


def keeps_history(filled: Filled) -> bool:
    """Whether the past can be asked for; a layout without it is held to say so."""
    (found,) = run(filled, "stores", "-o", "json").json
    kept = "history" in found["capabilities"]
    assert kept == filled.bench.has_history
    if not kept:
        assert len(run(filled, "history", "chat", "-o", "json").json) == 1
        past = run(filled, "show", "chat@~1")
        assert (past.code, past.out) == (3, "")
        assert past.err.startswith("ckpt: ")
        assert run(filled, "diff", "chat").code == 0
    return kept


def rows(filled: Filled, thread_id: str, namespace: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = filled.threads[thread_id]["history"].get(namespace, [])
    return found


def test_threads_list_all(filled: Filled) -> None:
    listed = run(filled, "threads", "list", "--all", "-o", "json").json
    assert {row["thread_id"] for row in listed} == set(filled.threads)
    for row in listed:
        assert row["head"] == rows(filled, row["thread_id"])[0]["checkpoint_id"]
        assert "status" not in row
    assert [row["last_at"] for row in listed] == sorted(
        (row["last_at"] for row in listed), reverse=True
    )


def test_threads_list_long(filled: Filled) -> None:
    listed = run(filled, "threads", "list", "--all", "--long", "-o", "json").json
    for row in listed:
        head = rows(filled, row["thread_id"])[0]
        assert row["step"] == head["step"]
        assert row["source"] == head["source"]
        assert row["parent"] == head["parent_checkpoint_id"]
        assert row["bytes"] > 0
        waiting = filled.threads[row["thread_id"]]["waiting_own"]
        assert (row["status"] == "done") == (not head["next"])
        if row["status"] == "interrupted":
            assert head["interrupts"]
        if row["status"] in {"interrupted", "error"}:
            assert waiting


@pytest.mark.parametrize("status", ["interrupted", "error", "pending", "done"])
def test_threads_list_by_status(filled: Filled, status: str) -> None:
    every = run(filled, "threads", "list", "--all", "--long", "-o", "json").json
    some = run(filled, "threads", "list", "--all", "--status", status, "-o", "json").json
    assert some
    assert [row["thread_id"] for row in some] == [
        row["thread_id"] for row in every if row["status"] == status
    ]


def test_threads_list_where(filled: Filled) -> None:
    found = run(filled, "threads", "list", "--where", "metadata.user_id=user-17", "-o", "json").json
    want = {
        thread_id
        for thread_id in filled.threads
        if rows(filled, thread_id)[0]["metadata"].get("user_id") == "user-17"
    }
    assert {row["thread_id"] for row in found} == want


def test_threads_show(filled: Filled) -> None:
    for thread_id, truth in filled.threads.items():
        shown = run(filled, "threads", "show", "-o", "json", "--", thread_id).json
        assert {ns["checkpoint_ns"] for ns in shown["in_namespaces"]} == set(truth["history"])
        assert sorted(shown["next"]) == rows(filled, thread_id)[0]["next"]


def test_show_of_each_head(filled: Filled) -> None:
    for thread_id, truth in filled.threads.items():
        shown = run(filled, "show", "-o", "json", "--", thread_id).json
        head = rows(filled, thread_id)[0]
        assert shown["thread_id"] == thread_id
        assert shown["checkpoint_id"] == head["checkpoint_id"]
        assert shown["parent_checkpoint_id"] == head["parent_checkpoint_id"]
        assert sorted(shown["next"]) == head["next"]
        assert sorted(shown["waiting"]) == truth["waiting_own"]
        assert sorted(text(one["value"]) for one in shown["interrupts"]) == sorted(
            text(one["value"]) for one in head["interrupts"]
        )
        if isinstance(head["values"], dict) and not set(head["values"]) & {"$type", "text"}:
            shared = set(shown["values"]) & set(head["values"])
            if not filled.bench.has_history:
                shared -= shown["rebuilt"].keys()
            for name in shared:
                assert text(shown["values"][name]) == text(head["values"][name]), thread_id


def test_show_of_every_checkpoint_by_its_id_and_namespace(filled: Filled) -> None:
    for thread_id in ("subgraph", "interrupt-nested", "fork-update", "delta-often"):
        for namespace, history in filled.threads[thread_id]["history"].items():
            for truth in history:
                shown = run(
                    filled,
                    *("show", f"{thread_id}@{truth['checkpoint_id']}"),
                    *("--ns", namespace, "-o", "json"),
                ).json
                assert shown["checkpoint_ns"] == namespace
                assert shown["step"] == truth["step"]
                assert canonical(shown["metadata"]) == canonical(truth["metadata"])


def test_history_and_tree_list_the_checkpoints_newest_first(filled: Filled) -> None:
    for thread_id in filled.threads:
        want = [one["checkpoint_id"] for one in rows(filled, thread_id)]
        for words in (["history"], ["show", "--tree"]):
            found = run(filled, *words, "-o", "json", "--", thread_id).json
            assert [one["checkpoint_id"] for one in found] == want
            assert {"depth", "children", "write_count"} <= set(found[0])
            assert "values" not in found[0]


def test_history_of_all_namespaces(filled: Filled) -> None:
    for thread_id, truth in filled.threads.items():
        found = run(filled, "history", "--all-ns", "-o", "ndjson", "--", thread_id)
        assert found.out.count("\n") == sum(map(len, truth["history"].values()))


def test_the_tree_shows_every_checkpoint_when_unfolded(filled: Filled) -> None:
    for thread_id, truth in filled.threads.items():
        drawn = run(filled, "show", "--tree", "--unfold", "--", thread_id).out
        steps = [line for line in drawn.splitlines() if any(sign in line for sign in "◆○◇●")]
        assert len(steps) == sum(map(len, truth["history"].values())), drawn


def test_diff_against_the_parent(filled: Filled) -> None:
    if not keeps_history(filled):
        return
    for thread_id in ("linear", "chat", "reducers"):
        newest, parent = rows(filled, thread_id)[:2]
        found = run(filled, "diff", thread_id, "-o", "json").json
        assert found["to"]["checkpoint_id"] == newest["checkpoint_id"]
        assert found["from"]["checkpoint_id"] == parent["checkpoint_id"]
        changed = {
            name
            for name in {**newest["values"], **parent["values"]}
            if text(newest["values"].get(name)) != text(parent["values"].get(name))
        }
        assert set(found["channels"]) == changed


def test_diff_of_a_checkpoint_with_itself_finds_nothing(filled: Filled) -> None:
    same = run(filled, "diff", "chat@head", "head", "--exit-code")
    assert same.code == 0
    if not keeps_history(filled):
        return
    assert run(filled, "diff", "chat@~5", "head", "--exit-code").code == 1


def test_interrupts_are_those_that_wait_each_once_at_its_leaf(filled: Filled) -> None:
    found = run(filled, "interrupts", "-o", "json").json
    asking = {
        thread_id
        for thread_id, truth in filled.threads.items()
        if rows(filled, thread_id)[0]["interrupts"] and truth["waiting_own"]
    }
    assert {one["thread_id"] for one in found} == asking
    ids = [one["interrupt_id"] for one in found]
    assert len(ids) == len(set(ids))
    nested = next(one for one in found if one["thread_id"] == "interrupt-nested")
    assert nested["checkpoint_ns"].count("|") == 1
    assert nested["node"] == "ask"


def test_hostile_thread_ids_are_found_as_they_are(filled: Filled) -> None:
    names = [one for one, truth in filled.threads.items() if truth["scenario"] == HOSTILE]
    assert len(names) > 5
    past = 1 if keeps_history(filled) else 0
    for thread_id in names:
        shown = run(filled, "show", "--at", f"~{past}", "-o", "json", "--", thread_id).json
        assert shown["thread_id"] == thread_id
        assert shown["checkpoint_id"] == rows(filled, thread_id)[past]["checkpoint_id"]


def test_stores_describes_it(filled: Filled) -> None:
    (found,) = run(filled, "stores", "-o", "json").json
    assert found["layout"]
    assert found["engine"]
    assert "error" not in found


def test_no_command_changes_the_store(filled: Filled) -> None:
    before = filled.bench.fingerprint()
    for words in (
        ["threads", "list", "--all", "--long"],
        ["show", "subgraph", "--writes", "--metadata"],
        ["show", "subgraph", "--tree", "--all-ns"],
        ["history", "subgraph", "--all-ns"],
        ["diff", "subgraph"],
        ["interrupts"],
        ["stores"],
    ):
        assert run(filled, *words).code == 0
    assert filled.bench.fingerprint() == before
