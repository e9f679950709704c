"""The messages of older releases and of LangGraph.js are repaired in their own form."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from langgraph.prebuilt.chat_agent_executor import _validate_chat_history

from ckpt_backends.codec import decode
from ckpt_backends.codec.edits import list_of, set_keys, stored_items
from ckpt_backends.model import TypedBytes
from ckpt_backends.registry import open_store
from ckpt_backends.testing.official import ScenarioThread, config_of
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_cli.core.conversation import Message, as_message
from ckpt_cli.core.edit_state import stored_value
from ckpt_cli.core.state import read_body
from ckpt_cli.plans.repair import plan_message_repair
from ckpt_cli.reading.thread import ThreadReader
from tests.kit.agents.calling import check_pairs
from tests.kit.command import FIXTURES, apply_change, ckpt, copy_store, eras
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.rows import change, rows_of

BY_DEFAULT = {"lg-0.2.14-json", "js-1.7.3"}
"""JSON with `lc` envelopes of Python and of JavaScript; the other forms are tested elsewhere."""
ERAS = [
    pytest.param(one.name, marks=() if one.name in BY_DEFAULT else pytest.mark.engines)
    for one in eras()
    if "serde" not in one.name
]


def message(stored: TypedBytes) -> Message:
    found = as_message(decode(stored))
    assert found is not None
    return found


def messages(path: Path, thread_id: str) -> list[TypedBytes]:
    """The messages at the head of a thread, as stored."""
    with open_store(str(path)) as store:
        for head in store.checkpoints(thread_id, checkpoint_ns="", body=True, values=True):
            found = stored_value(head, read_body(head), "messages")
            assert found is not None
            return stored_items(found)
    return []


def lose_result(path: Path) -> int:
    """Remove the first result from the head of the thread `chat`; return its index."""
    with open_store(str(path)) as store:
        head = next(store.checkpoints("chat", checkpoint_ns="", body=True))
    assert head.body is not None
    items = messages(path, "chat")
    index = next(n for n, one in enumerate(items) if message(one).role == "tool")
    left = [one for n, one in enumerate(items) if n != index]

    def without(stored: bytes) -> bytes:
        return list_of(left, TypedBytes(items[0].type, stored)).data

    body = set_keys(head.body, {"channel_values": {"messages": without}})
    ((kind,),) = change(path, "SELECT typeof(checkpoint) FROM checkpoints LIMIT 1")
    stored = body.data if kind == "blob" else body.data.decode()
    statement = "UPDATE checkpoints SET checkpoint = ? WHERE thread_id = ? AND checkpoint_id = ?"
    change(path, statement, stored, head.key.thread_id, head.key.checkpoint_id)
    return index


def repair(path: Path, thread_id: str) -> None:
    with open_store(str(path)) as store:
        reader = ThreadReader(store, thread_id)
        now = datetime.now(UTC)
        plan = plan_message_repair(reader, store, None, now, content="gone", force=False)
    apply_change(str(path), plan.change)


@pytest.mark.parametrize("era", ERAS)
def test_a_lost_result_is_made_again(era: str, tmp_path: Path) -> None:
    path = copy_store(FIXTURES / era / "store.db", tmp_path)
    sound = messages(path, "chat")
    index = lose_result(path)
    before = rows_of(path)
    repair(path, "chat")
    mended = messages(path, "chat")
    made = mended.pop(index)
    assert mended == sound[:index] + sound[index + 1 :]
    old, new = message(sound[index]), message(made)
    assert (new.content, new.fields["status"]) == ("gone", "error")
    assert (new.role, new.name) == (old.role, old.name)
    assert new.fields["tool_call_id"] == old.fields["tool_call_id"]
    if era.startswith("lg"):
        with SqliteHarness.at(str(path)) as place:
            thread = ScenarioThread("chat", SCENARIOS["chat"].build)
            graph = thread.graph(place.kept_saver)
            found = graph.get_state(config_of("chat")).values["messages"]
        check_pairs(found)
        _validate_chat_history(found)
    else:
        assert ckpt("-s", path, "undo", "chat", "--yes").code == 0
        assert rows_of(path) == before
