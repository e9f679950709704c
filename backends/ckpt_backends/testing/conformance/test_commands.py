"""Every command's JSON, on every store, held against what the official library says."""

import pytest

from ckpt_backends.testing.conformance.answers import equal, has, keeps_history, rows, run
from ckpt_backends.testing.conformance.comparison import EMPTY, text
from ckpt_backends.testing.filling import FilledStore

VALUES_ONLY = False
DISTINCT = True


def test_threads_are_listed_newest_first_and_by_facts_of_their_heads(filled: FilledStore) -> None:
    listed = run(filled, "threads", "list", "--all", "--long", "-o", "json").json
    assert {row["thread_id"] for row in listed} == set(filled.threads)
    for row in listed:
        head = rows(filled, row["thread_id"])[0]
        assert (row["head"], row["step"]) == (head["checkpoint_id"], head["step"])
        assert (row["source"], row["parent"]) == (head["source"], head["parent_checkpoint_id"])
        assert row["bytes"] > 0
        waiting = filled.threads[row["thread_id"]]["waiting_own"]
        assert (row["status"] == "done") == (not head["next"])
        if row["status"] == "interrupted":
            assert head["interrupts"]
        if row["status"] in {"interrupted", "error"}:
            assert waiting
    times = [row["last_at"] for row in listed]
    assert times == sorted(times, reverse=True)
    short = run(filled, "threads", "list", "--all", "-o", "json").json
    assert [one["head"] for one in short] == [one["head"] for one in listed]
    assert not any("status" in one for one in short)
    for status in ("interrupted", "error", "pending", "done"):
        some = run(filled, "threads", "list", "--all", "--status", status, "-o", "json").json
        is_told = filled.harness.has_writes or status in {"pending", "done"}
        assert bool(some) == (is_told and (status != "error" or has(filled, "error")))
        wanted = [one["thread_id"] for one in listed if status in one["conditions"]]
        assert [one["thread_id"] for one in some] == wanted
    found = run(filled, "threads", "list", "--where", "metadata.user_id=user-17", "-o", "json").json
    want = {
        thread_id
        for thread_id in filled.threads
        if rows(filled, thread_id)[0]["metadata"].get("user_id") == "user-17"
    }
    assert {row["thread_id"] for row in found} == want


def test_show_of_each_thread_and_its_head(filled: FilledStore) -> None:
    for thread_id, truth in filled.sampled_threads.items():
        shown = run(filled, "show", "--long", "-o", "json", "--", thread_id).json
        head = rows(filled, thread_id)[0]
        assert {ns["checkpoint_ns"] for ns in shown["in_namespaces"]} == set(truth["history"])
        assert (shown["thread_id"], shown["checkpoint_id"]) == (thread_id, head["checkpoint_id"])
        assert shown["parent_checkpoint_id"] == head["parent_checkpoint_id"]
        assert sorted(shown["next"]) == head["next"]
        assert sorted(shown["waiting"]) == truth["waiting_own"]
        assert sorted(text(one["value"]) for one in shown["interrupts"]) == sorted(
            text(one["value"]) for one in head["interrupts"]
        )
        if isinstance(head["values"], dict) and not set(head["values"]) & {"$type", "text"}:
            shared = set(shown["values"]) & set(head["values"])
            if not filled.harness.has_history:
                lost = set(shown.get("unstored", ()))
                assert all(head["values"][name] in EMPTY for name in lost & shared)
                shared -= lost
            for name in shared:
                assert equal(filled, shown["values"][name], head["values"][name]), thread_id


def test_history_tree_and_timeline_have_checkpoints_and_their_nodes(filled: FilledStore) -> None:
    for thread_id, truth in filled.sampled_threads.items():
        every = sum(map(len, truth["history"].values()))
        drawn = run(filled, "show", "--tree", "--unfold", "--", thread_id).out
        nodes = [line for line in drawn.splitlines() if any(sign in line for sign in "◆○◇●")]
        assert len(nodes) == every, drawn
        lines = run(filled, "history", "--all-ns", "-o", "ndjson", "--", thread_id).out
        assert lines.count("\n") == every
        listed = run(filled, "history", "-o", "json", "--", thread_id).json
        want = [one["checkpoint_id"] for one in rows(filled, thread_id)]
        for found in (listed, run(filled, "show", "--tree", "-o", "json", "--", thread_id).json):
            assert [one["checkpoint_id"] for one in found] == want
            assert {"depth", "children", "write_count"} <= set(found[0])
            assert "values" not in found[0]
        by_id = {one["checkpoint_id"]: one for one in listed}
        timeline = run(filled, "timeline", "-o", "json", "--", thread_id).json
        steps = [one for one in timeline["steps"] if not one["depth"] and not one["checkpoint_ns"]]
        assert steps[-1]["checkpoint_id"] == want[0]
        for one, before in zip(steps[1:], steps, strict=False):
            here = by_id[one["checkpoint_id"]]
            assert here["parent_checkpoint_id"] == before["checkpoint_id"]
            assert sorted(one["nodes"]) == sorted(here["nodes"]), thread_id
            assert (one["ended_at"], one["step"]) == (here["ts"], here["step"])
            assert (one["cause"] == "input") == (here["source"] == "input")


def test_diff_against_the_parent_and_with_itself(filled: FilledStore) -> None:
    assert run(filled, "diff", "chat@head", "head", "--exit-code").code == 0
    if not keeps_history(filled):
        pytest.skip("keeps no history")
    assert run(filled, "diff", "chat@~5", "head", "--exit-code").code == 1
    for thread_id in (one for one in ("linear", "chat", "reducers") if has(filled, one)):
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


def test_interrupts_are_those_that_wait_each_once_at_its_leaf(filled: FilledStore) -> None:
    answer = run(filled, "interrupts", "-o", "json")
    found = answer.json
    if not filled.harness.has_writes:
        assert found == []
        assert "questions, errors and results of tasks are unknown" in answer.err
        return
    asking = {
        thread_id
        for thread_id, truth in filled.threads.items()
        if rows(filled, thread_id)[0]["interrupts"] and truth["waiting_own"]
    }
    assert {one["thread_id"] for one in found} == asking
    ids = [one["interrupt_id"] for one in found]
    assert len(ids) == len(set(ids))
    if "interrupt-nested" in filled.harness.skipped_scenarios:
        return
    nested = next(one for one in found if one["thread_id"] == "interrupt-nested")
    assert (nested["checkpoint_ns"].count("|"), nested["node"]) == (1, "ask")


def test_du_adds_up(filled: FilledStore) -> None:
    listed = run(filled, "threads", "list", "--all", "--long", "-o", "json").json
    total = sum(one["bytes"] for one in listed)
    whole = run(filled, "du", "--top", "1000", "-o", "json").json
    assert whole["bytes"] == total
    for key in ("tables", "threads", "namespaces", "channels", "types"):
        assert sum(one["bytes"] for one in whole[key]) == total, key
    # Metadata that lies in one text with the body has no size of its own.
    assert {row["part"]: row["bytes"] for row in whole["channels"]}.get("metadata") != 0
    assert {one["thread_id"]: one["bytes"] for one in whole["threads"]} == {
        one["thread_id"]: one["bytes"] for one in listed
    }
    one = run(filled, "du", "--by", "channel", "--top", "1000", "-o", "json", "--", "chat").json
    assert sum(row["bytes"] for row in one) == next(
        row["bytes"] for row in listed if row["thread_id"] == "chat"
    )
    named = {row["bytes"]: row["channel"] for row in one if row["channel"]}
    assert bool(named) == filled.harness.has_writes
    assert not named or named[max(named)] == "messages"
