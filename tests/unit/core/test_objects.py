"""Values edited as JSON are stored as they were, whatever they hold."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ckpt_backends.codec import decode, from_json, to_json
from ckpt_backends.codec.lossless import Ext, encode_lossless
from ckpt_backends.errors import UsageError
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.edit_state import StoredObjects
from ckpt_cli.core.values import same
from tests.kit.strategies import few, packable

_names = st.sampled_from(["HumanMessage", "Plan", "set"])


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Ext types of every code, some of which have not the shape that LangGraph gives them."""
    fields = st.dictionaries(st.text(max_size=4), inner, max_size=3)
    return st.one_of(
        st.builds(_ext, st.just(0), _names, inner),
        st.builds(_ext, st.just(1), _names, st.lists(inner, max_size=3)),
        st.builds(_ext, st.just(2), _names, fields),
        st.builds(_ext, st.just(3), _names, inner, st.sampled_from(["fromhex", "fromisoformat"])),
        st.builds(_ext, st.sampled_from([4, 5]), _names, fields, st.just("model_validate_json")),
        st.builds(lambda part: Ext(7, encode_lossless("msgpack", part)), inner),
        st.builds(lambda part: Ext(9, encode_lossless("msgpack", part)), inner),
        st.builds(Ext, st.integers(0, 20), st.binary(max_size=6)),
    )


def _ext(code: int, name: str, *rest: Any) -> Ext:
    return Ext(code, encode_lossless("msgpack", ["app.models", name, *rest]))


_keys = st.text(max_size=4) | st.integers(2, 99) | st.tuples(st.text(max_size=3))
_msgpack = st.recursive(
    packable | st.sampled_from([math.nan, math.inf, -math.inf, 2**53 + 1, {"$type": 1, "$$x": 2}]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=3) | _objects(inner)
    ),
    max_leaves=12,
)
_envelope = st.builds(
    lambda path, kwargs: {"lc": 1, "type": "constructor", "id": path, "kwargs": kwargs},
    st.lists(st.text(max_size=3), min_size=1, max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
_special = st.sampled_from(
    [
        {"lc": 2, "type": "constructor", "id": ["builtins", "set"], "args": [[1, 2]]},
        {"lc": 2, "type": "constructor", "id": ["builtins", "bytes"], "method": "fromhex",
         "args": ["00ff"]},
        {"lc": 2, "type": "constructor", "id": ["Map"], "args": [[["a", 1]]]},
        {"lc": 2, "type": "undefined"},
        {"$type": "x", "$": 1},
    ]
)  # fmt: skip
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=6),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
        | _envelope
        | _special
    ),
    max_leaves=12,
)


def edited(stored: TypedBytes, form: Any) -> bytes:
    """What is stored after a value was edited to a JSON form."""
    objects = StoredObjects(stored.type, [stored])
    return encode_lossless(stored.type, objects.encodable(from_json(form)))


def shown(stored: TypedBytes) -> Any:
    """The JSON form as an editor is given it."""
    return json.loads(json.dumps(to_json(decode(stored)), ensure_ascii=False, indent=2))


@few
@given(_msgpack)
def test_msgpack_comes_back_from_the_editor_as_it_was(value: Any) -> None:
    stored = TypedBytes("msgpack", encode_lossless("msgpack", value))
    assert same(decode(TypedBytes("msgpack", edited(stored, shown(stored)))), decode(stored))


@given(_json)
def test_json_comes_back_from_the_editor_as_it_was(value: Any) -> None:
    stored = TypedBytes("json", encode_lossless("json", value))
    assert same(decode(TypedBytes("json", edited(stored, shown(stored)))), decode(stored))


def test_messages_are_edited_added_and_removed_as_the_official_serializer_writes_them() -> None:
    serializer = JsonPlusSerializer()
    before = [HumanMessage("hello", id="1"), AIMessage("hi", id="2"), HumanMessage("bye", id="3")]
    stored = TypedBytes(*serializer.dumps_typed(before))
    form = shown(stored)
    assert edited(stored, form) == stored.data
    form[0]["content"] = "good morning"
    form.append({**form[2], "content": "see you", "id": "4"})
    del form[1]
    after = serializer.loads_typed(("msgpack", edited(stored, form)))
    assert after == [
        HumanMessage("good morning", id="1"),
        HumanMessage("bye", id="3"),
        HumanMessage("see you", id="4"),
    ]


def test_an_object_of_a_class_that_is_not_stored_is_refused() -> None:
    stored = TypedBytes("msgpack", encode_lossless("msgpack", ["a"]))
    with pytest.raises(UsageError, match=r"cannot write an object of class 'os\.system'"):
        edited(stored, [{"$type": "os.system", "$args": ["id"]}])
