"""Every command's JSON, on every store, held against what the official library says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.conftest import Filled
from tests.conformance.truth import EMPTY, as_told, canonical, same, text
from tests.support import Answer, ckpt

BARE = False
DISTINCT = True
HOSTILE = "hostile-id"


def run(filled: Filled, *words: str) -> Answer:
    return ckpt("-s", filled.harness.url, *words)


def keeps_history(filled: Filled) -> bool:
    """Whether the past can be asked for; a layout without it is held to say so."""
    (found,) = run(filled, "stores", "-o", "json").json
    kept = "history" in found["capabilities"]
    assert kept == filled.harness.has_history
    if not kept:
        assert len(run(filled, "history", "chat", "-o", "json").json) == 1
        past = run(filled, "show", "chat@~1")
        assert (past.code, past.out) == (3, "")
        assert past.err.startswith("ckpt: ")
        assert run(filled, "diff", "chat").code == 0
    return kept


def has(filled: Filled, thread_id: str) -> bool:
    """Whether a scenario is in the store; its harness declares why not."""
    there = thread_id in filled.threads
    assert there == (thread_id not in filled.harness.mangled)
    return there


def equal(filled: Filled, got: Any, want: Any) -> bool:
    """Whether a value is the stored one, as far as its layout tells."""
    got, want = canonical(got), canonical(want)
    got = as_told(got, want) if filled.harness.pickled else got
    return same(got, want, sparse=filled.harness.sparse)


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
    assert bool(some) == (filled.harness.has_writes or status in {"pending", "done"})
    assert [row["thread_id"] for row in some] == [
        row["thread_id"] for row in every if status in row["conditions"]
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
    for thread_id, truth in filled.some.items():
        shown = run(filled, "threads", "show", "-o", "json", "--", thread_id).json
        assert {ns["checkpoint_ns"] for ns in shown["in_namespaces"]} == set(truth["history"])
        assert sorted(shown["next"]) == rows(filled, thread_id)[0]["next"]


def test_show_of_each_head(filled: Filled) -> None:
    for thread_id, truth in filled.some.items():
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
            if not filled.harness.has_history:
                lost = set(shown.get("unstored", ()))
                assert all(head["values"][name] in EMPTY for name in lost & shared)
                shared -= lost
            for name in shared:
                assert equal(filled, shown["values"][name], head["values"][name]), thread_id


def test_show_of_every_checkpoint_by_its_id_and_namespace(filled: Filled) -> None:
    chosen = ("subgraph", "interrupt-nested", "fork-update", "delta-often")
    for thread_id in (one for one in chosen if has(filled, one)):
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
    for thread_id in filled.some:
        want = [one["checkpoint_id"] for one in rows(filled, thread_id)]
        for words in (["history"], ["show", "--tree"]):
            found = run(filled, *words, "-o", "json", "--", thread_id).json
            assert [one["checkpoint_id"] for one in found] == want
            assert {"depth", "children", "write_count"} <= set(found[0])
            assert "values" not in found[0]


def test_history_of_all_namespaces(filled: Filled) -> None:
    for thread_id, truth in filled.some.items():
        found = run(filled, "history", "--all-ns", "-o", "ndjson", "--", thread_id)
        assert found.out.count("\n") == sum(map(len, truth["history"].values()))


def test_the_tree_shows_every_checkpoint_when_unfolded(filled: Filled) -> None:
    for thread_id, truth in filled.some.items():
        drawn = run(filled, "show", "--tree", "--unfold", "--", thread_id).out
        steps = [line for line in drawn.splitlines() if any(sign in line for sign in "◆○◇●")]
        assert len(steps) == sum(map(len, truth["history"].values())), drawn


def test_diff_against_the_parent(filled: Filled) -> None:
    if not keeps_history(filled):
        return
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


def test_diff_of_a_checkpoint_with_itself_finds_nothing(filled: Filled) -> None:
    same = run(filled, "diff", "chat@head", "head", "--exit-code")
    assert same.code == 0
    if not keeps_history(filled):
        return
    assert run(filled, "diff", "chat@~5", "head", "--exit-code").code == 1


def test_interrupts_are_those_that_wait_each_once_at_its_leaf(filled: Filled) -> None:
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


KINDS = {
    f"{kind}Message": name
    for kind, name in (("Human", "human"), ("AI", "ai"), ("Tool", "tool"), ("System", "system"))
}


def said(value: Any) -> list[dict[str, Any]]:
    """The items of a value that are messages."""
    items = value if isinstance(value, list) else []
    return [one for one in items if isinstance(one, dict) and "Message" in one.get("$type", "")]


def test_messages_are_those_of_the_state(filled: Filled) -> None:
    checked = 0
    for thread_id in filled.threads:
        head = rows(filled, thread_id)[0]
        values = head["values"] if isinstance(head["values"], dict) else {}
        for channel in values:
            want = said(values[channel])
            if not want:
                continue
            checked += 1
            answer = run(filled, "messages", "--channel", channel, "-o", "json", "--", thread_id)
            got = answer.json
            assert [one["index"] for one in got] == list(range(len(want)))
            assert [one["id"] for one in got] == [one["id"] for one in want]
            assert [text(one["content"]) for one in got] == [text(one["content"]) for one in want]
            # LangGraph.js names the class alone.
            kinds = [one.get("type") or one["$type"].rpartition(".")[2] for one in want]
            assert [one["role"] for one in got] == [KINDS.get(kind, kind) for kind in kinds]
            results = {
                one["tool_call_id"]: one["content"] for one in want if one.get("tool_call_id")
            }
            for call in (call for one in got for call in one["tool_calls"]):
                assert call["result"]["content"] == results[call["id"]]
    assert checked > (5 if has(filled, "delta-often") else 2)


def test_the_channel_of_the_messages_is_found(filled: Filled) -> None:
    chat = run(filled, "messages", "chat", "-o", "json")
    assert len(chat.json) == len(rows(filled, "chat")[0]["values"]["messages"])
    if has(filled, "root-messages"):
        bare = run(filled, "messages", "root-messages", "-o", "json")
        assert len(bare.json) > 1
    assert run(filled, "messages", "linear").code == 3


def test_messages_stat_sums_up_what_the_messages_say(filled: Filled) -> None:
    stat = run(filled, "messages", "chat", "--stat", "-o", "json").json
    want = rows(filled, "chat")[0]["values"]["messages"]
    assert sum(stat["messages"].values()) == len(want)
    assert sum(one["total"] for one in stat["tokens"]) == sum(
        one["usage_metadata"]["total_tokens"] for one in want if one.get("usage_metadata")
    )
    assert sum(one["calls"] for one in stat["tool_calls"]) == sum(
        len(one.get("tool_calls") or []) for one in want
    )


@pytest.mark.parametrize("thread_id", ["chat", "delta-often", "delta-rarely", "fork-chat"])
def test_grep_finds_each_message_once_on_each_branch_where_it_first_stood(
    filled: Filled, thread_id: str
) -> None:
    if not has(filled, thread_id):
        return
    known: dict[str | None, set[tuple[str, str]]] = {None: set()}
    want: list[tuple[str, str]] = []
    for one in reversed(rows(filled, thread_id)):
        here = {
            (message["id"], message["content"])
            for message in said(one["values"].get("messages"))
            if message["content"]
        }
        # Where there is no history, a parent may be named and be gone.
        before = known.get(one["parent_checkpoint_id"], set())
        known[one["checkpoint_id"]] = before | here
        want += [(one["checkpoint_id"], content) for _, content in here - before]
    assert want or not filled.harness.has_history
    words = ("grep", ".", "--match", thread_id, "--channel", "messages", "-o", "json")
    contents = [one for one in run(filled, *words).json if one["path"].endswith("].content")]
    in_values = [one for one in contents if one["in"] == "value"]
    assert sorted((one["checkpoint_id"], one["line"]) for one in in_values) == sorted(want)
    # Where branches share a value under one version, a task's write may be the last trace of it.
    assert in_values == contents or filled.harness.name == "redis-plain"


def test_grep_head_only_is_what_the_head_says(filled: Filled) -> None:
    found = run(filled, "grep", "Opening", "--head-only", "-F", "-o", "json").json
    for one in found:
        assert one["checkpoint_ns"] or (
            one["checkpoint_id"] == rows(filled, one["thread_id"])[0]["checkpoint_id"]
        )
    assert {one["thread_id"] for one in found} >= {"chat"}


def test_grep_with_processes_gives_the_same_in_the_same_order(filled: Filled) -> None:
    alone = run(filled, "grep", "-i", "a", "-o", "json")
    assert run(filled, "grep", "-i", "a", "-o", "json", "--jobs", "2").json == alone.json


def test_grep_that_finds_nothing_exits_with_1(filled: Filled) -> None:
    assert run(filled, "grep", "no such words anywhere").code == 1


BLAMED = [
    *("linear", "chat", "fanout-join", "fanout-send", "reducers", "conditional", "loop"),
    *("command-goto", "interrupt-answered", "delta-often", "delta-rarely", "subgraph"),
    *("fork-chat", "fork-update", "chat-edited", "update-mid"),
]


@pytest.mark.parametrize("thread_id", BLAMED)
def test_blame_names_the_step_and_the_node_that_wrote(filled: Filled, thread_id: str) -> None:
    if not has(filled, thread_id):
        return
    history = {one["checkpoint_id"]: one for one in rows(filled, thread_id)}
    if not keeps_history(filled):
        for name in next(iter(history.values()))["values"]:
            found = run(filled, "blame", thread_id, name, "-o", "json").json
            assert found["by"] in {"unknown", "caller"}
            assert found["checkpoint_id"] in history
        return
    checked = 0
    is_damaged = thread_id in {name for name, _, _ in filled.harness.damaged}
    for child in history.values():
        parent = history.get(child["parent_checkpoint_id"] or "")
        if parent is None:
            continue
        ran = {task["id"]: task["name"] for task in parent["tasks"]}
        for name, value in child["values"].items():
            if text(parent["values"].get(name)) == text(value) or value in ([], {}, 0, ""):
                continue
            found = run(
                filled, "blame", thread_id, name, "--at", child["checkpoint_id"], "-o", "json"
            ).json
            assert found["checkpoint_id"] == child["checkpoint_id"], (name, child["step"])
            assert found["step"] == child["step"]
            assert equal(filled, found["value"], value)
            checked += 1
            if child["source"] == "update":
                assert found["by"] == "update"
            elif not filled.harness.has_writes:
                assert (found["by"], found["candidates"]) == ("unknown", [])
            elif child["source"] == "loop" and not is_damaged:
                writers = found["candidates"] or [found]
                assert {one["node"] for one in writers} <= set(ran.values())
                assert {one["task_id"] for one in writers} <= set(ran)
                assert found["node"] or len(writers) > 1
    assert checked


def test_blame_goes_back_to_where_a_value_was_set(filled: Filled) -> None:
    for thread_id in (one for one in ("chat", "delta-often") if has(filled, one)):
        history = rows(filled, thread_id)
        for number, message in enumerate(history[0]["values"]["messages"]):
            holding = [
                one["checkpoint_id"]
                for one in history
                if any(
                    text(other) == text(message) for other in one["values"].get("messages") or []
                )
            ]
            found = run(filled, "blame", thread_id, f"messages[{number}]", "-o", "json").json
            assert found["checkpoint_id"] == holding[-1]


def test_du_adds_up(filled: Filled) -> None:
    listed = run(filled, "threads", "list", "--all", "--long", "-o", "json").json
    total = sum(one["bytes"] for one in listed)
    whole = run(filled, "du", "--top", "1000", "-o", "json").json
    assert whole["bytes"] == total
    for key in ("tables", "threads", "namespaces", "channels", "types"):
        assert sum(one["bytes"] for one in whole[key]) == total, key
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


def test_stores_describes_it(filled: Filled) -> None:
    (found,) = run(filled, "stores", "-o", "json").json
    assert found["layout"]
    assert found["engine"]
    assert "error" not in found


def test_no_command_changes_the_store(filled: Filled) -> None:
    before = filled.harness.fingerprint()
    thread_id = "subgraph" if has(filled, "subgraph") else "chat"
    for words in (
        ["threads", "list", "--all", "--long"],
        ["show", thread_id, "--writes", "--metadata"],
        ["show", thread_id, "--tree", "--all-ns"],
        ["history", thread_id, "--all-ns"],
        ["diff", thread_id],
        ["diff", thread_id, "--writes"],
        ["replay", thread_id],
        ["stats"],
        ["interrupts"],
        ["messages", "chat", "--full"],
        ["grep", "a"],
        ["blame", "chat", "messages[0]"],
        ["du"],
        ["stores"],
    ):
        assert run(filled, *words).code == 0
    assert filled.harness.fingerprint() == before
