"""Results that `ckpt` adds: in the form of the other messages, and in an order that APIs accept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ckpt_backends.codec import decode
from ckpt_backends.codec.edits import list_of, stored_items
from ckpt_backends.codec.lossless import Ext, decode_lossless
from ckpt_backends.codec.values import Tagged, Value
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import TypedBytes
from ckpt_backends.registry import open_store
from ckpt_cli.core.conversation import Counterparts, as_message, mended, pair, result_like
from ckpt_cli.core.edit_state import stored_value
from ckpt_cli.core.state import read_body
from tests.kit.command import copy_store, eras
from tests.unit.core.test_pairing import ai, human, tool

SAID: Any = {"call_id": "c", "tool": "look_up", "content": "stopped", "message_id": "m"}


def stored_messages(path: Path) -> list[TypedBytes]:
    with open_store(str(path)) as store:
        for head in store.checkpoints("chat", body=True, values=True):
            found = stored_value(head, read_body(head), "messages")
            assert found is not None
            return stored_items(found)
    return []


def parts(stored: TypedBytes) -> Any:
    """What identifies the form of a message: the class, and the names of its fields."""
    found = decode_lossless(stored)
    if isinstance(found, Ext):
        module, name, fields, *rest = decode_lossless(TypedBytes("msgpack", found.data))
        return found.code, module, name, set(fields), rest
    return found["lc"], found["type"], found["id"], {*found["kwargs"], "status"}


@pytest.mark.parametrize("era", sorted(era.name for era in eras() if "serde" not in era.name))
def test_a_result_has_the_form_of_a_stored_result(era: str, tmp_path: Path) -> None:
    (folder,) = (one for one in eras() if one.name == era)
    items = stored_messages(copy_store(folder / "store.db", tmp_path))
    (caller, *_) = (one for one in items if getattr(as_message(decode(one)), "tool_calls", None))
    (result, *_) = (one for one in items if getattr(as_message(decode(one)), "role", "") == "tool")
    made = result_like(caller, **SAID)
    assert parts(made) == parts(result)
    message = as_message(decode(made))
    assert message is not None
    assert (message.content, message.id, message.name) == ("stopped", "m", "look_up")
    assert message.fields["tool_call_id"] == "c"
    if era.startswith("lg"):
        loaded = JsonPlusSerializer().loads_typed((made.type, made.data))
        assert loaded == ToolMessage(
            "stopped", id="m", name="look_up", tool_call_id="c", status="error"
        )


def test_a_subclass_of_a_message_gets_a_plain_result() -> None:
    path = ["my", "messages", "AIMessage"]
    caller = {"lc": 1, "type": "constructor", "id": path, "kwargs": {"type": "ai"}}
    made = result_like(TypedBytes("json", json.dumps(caller).encode()), **SAID)
    assert decode_lossless(made)["id"] == ["langchain", "schema", "messages", "ToolMessage"]
    caller = {"lc": 2, "type": "constructor", "id": path, "kwargs": {}}
    made = result_like(TypedBytes("json", json.dumps(caller).encode()), **SAID)
    assert decode_lossless(made)["id"] == ["langchain_core", "messages", "tool", "ToolMessage"]


@pytest.mark.parametrize(
    ("caller", "says"),
    [
        (
            {"role": "assistant", "content": None},
            {"role": "tool", "content": "stopped", "tool_call_id": "c"},
        ),
        (
            {"role": "assistant", "content": None, "id": "1"},
            {"role": "tool", "content": "stopped", "tool_call_id": "c", "id": "m"},
        ),
        (
            {"type": "ai", "content": ""},
            {"type": "tool", "content": "stopped", "tool_call_id": "c", "id": "m"}
            | {"name": "look_up", "status": "error"},
        ),
    ],
)
def test_a_plain_dict_gets_a_plain_dict(caller: dict[str, Any], says: dict[str, Any]) -> None:
    for tag, data in (
        ("msgpack", ormsgpack.packb(caller)),
        ("json", json.dumps(caller, separators=(",", ":")).encode()),
    ):
        made = result_like(TypedBytes(tag, data), **SAID)
        assert decode(made) == says
        assert b": " not in made.data


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(Unsupported, match="form of the message"):
        result_like(TypedBytes("json", b'{"content": ""}'), **SAID)
    with pytest.raises(Unsupported):
        result_like(TypedBytes("pickle", b"N."), **SAID)


ITEMS = [b'{"a": [1, "]"]}', b"1.50", b'"\\u00e9,"', b"[]"]


@pytest.mark.parametrize("comma", [b", ", b",", b",\n "])
def test_a_list_is_taken_apart_and_put_together(comma: bytes) -> None:
    stored = TypedBytes("json", b"[" + comma.join(ITEMS) + b"]")
    items = stored_items(stored)
    assert [one.data for one in items] == ITEMS
    assert list_of(items, stored) == stored
    assert list_of(items[:1], stored).data == b"[" + ITEMS[0] + b"]"
    packed = TypedBytes("msgpack", ormsgpack.packb([AIMessage("x").content, 1.5, [2], {}]))
    assert list_of(stored_items(packed), packed) == packed
    assert stored_items(TypedBytes("json", b" [ ] ")) == []
    for bad in (TypedBytes("json", b"{}"), TypedBytes("json", b"[1 2]"), TypedBytes("x", b"")):
        with pytest.raises(Unsupported):
            stored_items(bad)
    with pytest.raises(Unsupported):
        list_of(items, packed)


CALLS = st.sampled_from(["a", "b", "c"])


@given(
    st.lists(
        st.builds(ai, CALLS, CALLS)
        | st.builds(ai, CALLS)
        | st.builds(tool, CALLS)
        | st.builds(human)
    )
)
def test_a_mended_conversation_is_sound(items: list[Value]) -> None:
    found = pair(items, Counterparts(len(items)))
    order = mended(items, found)
    after = [items[one] if isinstance(one, int) else tool(one.id) for one in order]
    again = pair(after, Counterparts(len(after)))
    assert not again.is_broken
    assert len(again.awaited) == len(found.awaited)
    kept = [one for one in order if isinstance(one, int) and one not in found.orphaned]
    assert kept == [n for n in range(len(items)) if n not in found.orphaned]


def test_new_results_come_behind_those_that_are_there() -> None:
    items: list[Value] = [human(), ai("a", "b"), tool("b"), human(), tool("c"), ai("c"), human()]
    order = mended(items, pair(items, Counterparts(len(items))))
    names = [one if isinstance(one, int) else one.id for one in order]
    assert names == [0, 1, 2, "a", 3, 5, 4, 6]
    assert isinstance(items[0], Tagged)


def test_an_anthropic_call_in_a_plain_dict_is_answered_by_the_user() -> None:
    blocks = [{"type": "tool_use", "id": "c", "name": "look_up", "input": {}}]
    caller = TypedBytes("msgpack", ormsgpack.packb({"role": "assistant", "content": blocks}))
    answer = {"tool_use_id": "c", "content": "stopped", "is_error": True}
    assert decode(result_like(caller, **SAID)) == {
        "role": "user",
        "content": [{"type": "tool_result", **answer}],
    }
