"""The JSON of `messages`, `grep` and `blame`, held against what the official library says."""

from typing import Any

from ckpt_backends.testing.conformance.answers import equal, has, keeps_history, rows, run
from ckpt_backends.testing.conformance.comparison import text
from ckpt_backends.testing.filling import FilledStore

VALUES_ONLY = False
DISTINCT = True


KINDS = {
    f"{kind}Message": name
    for kind, name in (("Human", "human"), ("AI", "ai"), ("Tool", "tool"), ("System", "system"))
}


def said(value: Any) -> list[dict[str, Any]]:
    """The items of a value that are messages."""
    items = value if isinstance(value, list) else []
    return [one for one in items if isinstance(one, dict) and "Message" in one.get("$type", "")]


def test_messages_are_those_of_the_state(filled: FilledStore) -> None:
    checked = 0
    for thread_id in filled.threads:
        head = rows(filled, thread_id)[0]
        values = head["values"] if isinstance(head["values"], dict) else {}
        for channel in values:
            want = said(values[channel])
            if not want:
                continue
            checked += 1
            got = run(filled, "messages", "--channel", channel, "-o", "json", "--", thread_id).json
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


def test_the_channel_of_the_messages_is_found_and_summed_up(filled: FilledStore) -> None:
    chat = run(filled, "messages", "chat", "-o", "json")
    assert len(chat.json) == len(rows(filled, "chat")[0]["values"]["messages"])
    if has(filled, "root-messages"):
        assert len(run(filled, "messages", "root-messages", "-o", "json").json) > 1
    assert run(filled, "messages", "linear").code == 3
    stat = run(filled, "messages", "chat", "--stat", "-o", "json").json
    want = rows(filled, "chat")[0]["values"]["messages"]
    assert sum(stat["messages"].values()) == len(want)
    assert sum(one["total"] for one in stat["tokens"]) == sum(
        one["usage_metadata"]["total_tokens"] for one in want if one.get("usage_metadata")
    )
    assert sum(one["calls"] for one in stat["tool_calls"]) == sum(
        len(one.get("tool_calls") or []) for one in want
    )


def test_grep_finds_each_message_once_on_each_branch_where_it_begins(filled: FilledStore) -> None:
    for thread_id in ("chat", "delta-often", "delta-rarely", "fork-chat"):
        if has(filled, thread_id):
            check_grep(filled, thread_id)
    found = run(filled, "grep", "Opening", "--head-only", "-F", "-o", "json").json
    for one in found:
        assert one["checkpoint_ns"] or (
            one["checkpoint_id"] == rows(filled, one["thread_id"])[0]["checkpoint_id"]
        )
    assert {one["thread_id"] for one in found} >= {"chat"}


def check_grep(filled: FilledStore, thread_id: str) -> None:
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


BLAMED = [
    *("linear", "chat", "fanout-join", "fanout-send", "reducers", "conditional", "loop"),
    *("command-goto", "interrupt-answered", "delta-often", "delta-rarely", "subgraph"),
    *("fork-chat", "fork-update", "chat-edited", "update-mid"),
]


def test_blame_names_the_step_and_the_node_that_wrote(filled: FilledStore) -> None:
    for thread_id in BLAMED:
        if has(filled, thread_id):
            check_blame(filled, thread_id)


def check_blame(filled: FilledStore, thread_id: str) -> None:
    history = {one["checkpoint_id"]: one for one in rows(filled, thread_id)}
    if not keeps_history(filled):
        for name in next(iter(history.values()))["values"]:
            found = run(filled, "blame", thread_id, name, "-o", "json").json
            assert found["by"] in {"unknown", "caller"}
            assert found["checkpoint_id"] in history
        return
    checked = 0
    is_damaged = thread_id in {name for name, _, _ in filled.harness.known_mismatches}
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


def test_blame_goes_back_to_where_a_value_was_set(filled: FilledStore) -> None:
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
