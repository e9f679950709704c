from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.codec import DELTA_SNAPSHOT, UNDEFINED, Opaque, Tagged, Value, decode
from ckpt_backends.codec.json import DECODER, decode_json
from ckpt_backends.codec.values import DEFAULT_LIMITS
from ckpt_backends.model import TypedBytes


def lc2(*path: str, **rest: Any) -> dict[str, Any]:
    return {"lc": 2, "type": "constructor", "id": [*path], **rest}


ENVELOPES: list[tuple[Any, Value]] = [
    (lc2("builtins", "set", args=[[1, 2]]), Tagged("builtins.set", [1, 2])),
    (lc2("collections", "deque", method=None, args=[[]]), Tagged("collections.deque", [])),
    (
        lc2("datetime", "datetime", method="fromisoformat", args=["2026-04-07"]),
        Tagged("datetime.datetime", "2026-04-07"),
    ),
    (lc2("uuid", "UUID", args=["ab"]), Tagged("uuid.UUID", "ab")),
    (lc2("datetime", "timedelta", args=[1]), Tagged("datetime.timedelta", [1])),
    (lc2("pathlib", "PosixPath", args=["a"]), Tagged("pathlib.PosixPath", ["a"])),
    (lc2("re", "compile", args=["a", 32]), Tagged("re.compile", ["a", 32])),
    (
        lc2("datetime", "time", args=[1, 2, 3, 4, None], kwargs={"fold": 1}),
        Tagged(
            "datetime.time",
            {"hour": 1, "minute": 2, "second": 3, "microsecond": 4, "tzinfo": None, "fold": 1},
        ),
    ),
    (
        lc2("langgraph", "constants", "Send", kwargs={"node": "n", "arg": 1}),
        Tagged("langgraph.constants.Send", ["n", 1]),
    ),
    (
        lc2("app", "Model", method=[None, "model_construct"], kwargs={"x": 1}),
        Tagged("app.Model", {"x": 1}),
    ),
    (lc2("builtins", "bytes", method="fromhex", args=["00ff"]), b"\x00\xff"),
    (
        lc2("builtins", "bytearray", method="fromhex", args=["00"]),
        Tagged("builtins.bytearray", b"\0"),
    ),
    (lc2("m", "C", method="make", args=[1]), Tagged("m.C.make", 1)),
    (lc2("m", "C"), Tagged("m.C", [])),
    (
        {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", "schema", "AIMessage"],
            "kwargs": {"content": "x"},
        },
        Tagged("langchain.schema.AIMessage", {"content": "x"}),
    ),
    (
        {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", "schema", "messages", "AIMessage"],
            "kwargs": {"content": "x"},
        },
        Tagged("langchain_core.messages.ai.AIMessage", {"content": "x"}),
    ),
    ({"lc": 1, "type": "secret", "id": ["KEY"]}, Tagged("langchain.secret", "KEY")),
    (
        {"lc": 1, "type": "not_implemented", "id": ["a", "B"], "repr": "B()"},
        Tagged("a.B", {"repr": "B()"}),
    ),
]


def js(name: str, *args: Any, method: Any = None) -> dict[str, Any]:
    """An envelope as LangGraph.js writes it."""
    return lc2(name, method=method, args=[*args], kwargs={})


JAVASCRIPT: list[tuple[Any, Value]] = [
    ({"lc": 2, "type": "undefined"}, UNDEFINED),
    ({"lc": 2, "type": "delta_snapshot", "value": [1]}, Tagged(DELTA_SNAPSHOT, [1])),
    ({"lc": 2, "type": "delta_snapshot", "value": None}, Tagged(DELTA_SNAPSHOT, None)),
    (js("Set", ["b", "a", 1]), Tagged("builtins.set", ["b", "a", 1])),
    (js("Set", [js("Set", [])]), Tagged("builtins.set", [Tagged("builtins.set", [])])),
    (js("Map", [["b", 1], ["a", [2]]]), {"b": 1, "a": [2]}),
    (js("Map", [[2, "n"], ["2", "t"], [None, 0]]), {2: "n", "2": "t", None: 0}),
    (js("Map", []), {}),
    (js("Map", [[1, "a"], [True, "b"]]), Tagged("javascript.Map", [[1, "a"], [True, "b"]])),
    (js("Map", [[{"x": 1}, "a"]]), Tagged("javascript.Map", [[{"x": 1}, "a"]])),
    (js("Map", [[js("Map", []), js("Map", [])]]), Tagged("javascript.Map", [[{}, {}]])),
    (js("RegExp", "^a+", "gi"), Tagged("javascript.RegExp", ["^a+", "gi"])),
    (js("Error", "went wrong"), Tagged("javascript.Error", "went wrong")),
    (js("TypeError", ""), Tagged("javascript.TypeError", "")),
    (js("Uint8Array", [0, 255], method="from"), b"\x00\xff"),
    (js("Uint8Array", []), b""),
    (
        {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain_core", "messages", "AIMessage"],
            "kwargs": {"content": "x", "tool_calls": []},
        },
        Tagged("langchain_core.messages.AIMessage", {"content": "x", "tool_calls": []}),
    ),
]

AS_THEY_ARE: list[Any] = [
    {"lc": 2, "type": "undefined", "more": 1},
    {"lc": 1, "type": "undefined"},
    {"lc": 2, "type": "delta_snapshot"},
    js("Set", "not a list"),
    js("Set", [1], [2]),
    js("Set", [1], method="constructor"),
    js("Map", [["key"]]),
    js("Map", {"k": 1}),
    js("Uint8Array", [256], method="from"),
    js("Uint8Array", [True, -1, 0.5]),
    js("Uint8Array", "aGk=", method="fromBase64"),
    js("RegExp", "a"),
    js("Error", {"message": "x"}),
    js("Function", "return process"),
    {"node": "worker", "args": {"part": 1}},
    {"0": 0, "1": 255},
    lc2("m", "C", method={"x": 1}, args=[1]),
    lc2("m", "C", args=[1], kwargs={"x": 1}),
    lc2("m", "C", args="x"),
    lc2("m", "C", kwargs=[1]),
    lc2("builtins", "bytes", method="fromhex", args=["zz"]),
    {"lc": 2, "type": "constructor", "id": "m.C"},
    {"lc": 2, "type": "constructor", "id": []},
    {"lc": 2, "type": "constructor", "id": [1, "C"]},
    {"lc": True, "type": "constructor", "id": ["m", "C"]},
    {"lc": 3, "type": "constructor", "id": ["m", "C"]},
    {"lc": [1], "type": "constructor", "id": ["m", "C"]},
    {"lc": 1, "type": "constructor", "id": ["m", "C"], "kwargs": 1},
]


@pytest.mark.parametrize(("envelope", "value"), [*ENVELOPES, *JAVASCRIPT])
def test_envelopes(envelope: Any, value: Value) -> None:
    assert read(envelope) == value
    assert read({"a": [envelope]}) == {"a": [value]}


def test_the_order_of_a_map_and_of_a_set_is_kept() -> None:
    found = read(js("Map", [["b", 1], [3, 2], ["a", js("Set", ["z", "y"])]]))
    assert isinstance(found, dict)
    assert list(found) == ["b", 3, "a"]
    assert found["a"] == Tagged("builtins.set", ["z", "y"])


@pytest.mark.parametrize("envelope", AS_THEY_ARE)
def test_other_shapes_stay_plain(envelope: Any) -> None:
    assert read(envelope) == envelope


def test_envelopes_inside_envelopes() -> None:
    inner = lc2("m", "Inner", kwargs={"y": 2})
    assert read(lc2("m", "Outer", kwargs={"x": inner})) == Tagged(
        "m.Outer", {"x": Tagged("m.Inner", {"y": 2})}
    )


def test_numbers_that_json_does_not_have() -> None:
    value = decode(TypedBytes("json", b"[NaN, Infinity, 1e999]"))
    assert isinstance(value, list)
    assert math.isnan(float(str(value[0])))
    assert value[1:] == [math.inf, math.inf]


def test_integers_too_long_for_python() -> None:
    digits = "-" + "9" * 5000
    assert decode(TypedBytes("json", digits.encode())) == Tagged("builtins.int", digits)


def test_lone_surrogates() -> None:
    assert decode(TypedBytes("json", b'"\\ud800"')) == "\ud800"


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b'"\xff"', b"[1] 2", b"nul", b"'a'"])
def test_what_is_not_json(data: bytes) -> None:
    value = decode(TypedBytes("json", data))
    assert isinstance(value, Opaque)
    assert (value.type, value.size) == ("json", len(data))


def read(envelope: Any) -> Value:
    return decode(TypedBytes("json", json.dumps(envelope).encode()))


NAMES = st.sampled_from(["lc", "lg_name", "value", "type", "id", "args", "kwargs"]) | st.text()
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | NAMES
ENVELOPED = st.fixed_dictionaries(
    {
        "lc": st.just(2),
        "type": st.just("constructor"),
        "id": st.just(["Set"]),
        "args": st.just([[1]]),
    }
)
SNAPSHOTS = st.fixed_dictionaries({"lg_name": st.just("DeltaSnapshot"), "value": SCALARS})
TREES = st.recursive(
    SCALARS | ENVELOPED | SNAPSHOTS, lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner)
)


@given(TREES, st.booleans())
def test_a_text_without_envelopes_is_decoded_as_any_other(tree: Any, ascii_only: bool) -> None:
    text = json.dumps(tree, ensure_ascii=ascii_only)
    found = decode_json(text.encode("utf-8", "surrogatepass"), DEFAULT_LIMITS)
    assert repr(found) == repr(DECODER.decode(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'{"l\u0063": 2, "type": "undefined"}', UNDEFINED),
        (r'{"lg\u005fname": "DeltaSnapshot", "value": 1}', Tagged(DELTA_SNAPSHOT, 1)),
        (f"[{'1' * 4001}]", [Tagged("builtins.int", "1" * 4001)]),
    ],
)
def test_an_envelope_in_any_spelling_is_found(text: str, value: Value) -> None:
    assert decode_json(text.encode(), DEFAULT_LIMITS) == value
