"""JSON: the form that is printed, and the envelopes in which LangGraph stores objects."""

import json
import math
from typing import Any

import pytest
from hypothesis import given

from ckpt_backends.codec import (
    DELTA_SNAPSHOT,
    UNDEFINED,
    Cut,
    Json,
    Opaque,
    Tagged,
    Value,
    decode,
    from_json,
    to_json,
)
from ckpt_backends.codec.json import decode_json
from ckpt_backends.codec.values import DEFAULT_LIMITS
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.values import same
from tests.kit.cases import cases
from tests.kit.strategies import values

CASES: list[tuple[Value, Json]] = [
    ([None, True, 1, 1.5, "x"], [None, True, 1, 1.5, "x"]),
    (b"\x00\xff", {"$bytes": "AP8="}),
    (Tagged("builtins.set", [1, 2]), {"$set": [1, 2]}),
    (Tagged("builtins.tuple", [1, 2]), {"$tuple": [1, 2]}),
    (Tagged("datetime.datetime", "2026-04-07"), {"$datetime": "2026-04-07"}),
    (Tagged("m.C", {"a": 1, "$b": 2}), {"$type": "m.C", "a": 1, "$$b": 2}),
    (Tagged("m.C", {1: 2}), {"$type": "m.C", "$value": {"$map": [[1, 2]]}}),
    (Tagged("m.C", [1, [2]]), {"$type": "m.C", "$args": [1, [2]]}),
    (math.inf, {"$float": "Infinity"}),
    (2**53, 2**53),
    (2**53 + 1, {"$int": "9007199254740993"}),
    ({"$type": 1, "$$": 2, "a$": 3}, {"$$type": 1, "$$$": 2, "a$": 3}),
    ({1: "a", "b": 2}, {"$map": [[1, "a"], ["b", 2]]}),
    ("a\ud800", {"$str": "Ye2ggA=="}),
    (
        Opaque("pickle", 3, "ab", "not read"),
        {"$opaque": {"type": "pickle", "bytes": 3, "sha256": "ab", "reason": "not read"}},
    ),
    (Cut([1], 99, "long"), {"$cut": {"kept": [1], "bytes": 99, "reason": "long"}}),
]


@pytest.mark.parametrize(("value", "form"), CASES)
def test_forms(value: Value, form: Json) -> None:
    assert to_json(value) == form
    assert from_json(form) == value


@given(values)
def test_any_value_comes_back_from_printed_json(value: Value) -> None:
    assert same(from_json(json.loads(json.dumps(to_json(value), allow_nan=False))), value)
    json.dumps(to_json(value), ensure_ascii=False).encode()


def test_a_value_deeper_than_the_stack() -> None:
    value: Value = 1
    for _ in range(50_000):
        value = [value]
    assert isinstance(from_json(to_json(Tagged("m.C", {"a": value}))), Tagged)


@cases(
    "form",
    {"$unknown": 1},
    {"$set": 1},
    {"$map": [[1]]},
    {"$map": [[[1], 2]]},
    {"$bytes": "*"},
    {"$int": "x"},
    {"$int": "1" * 10_000},
    {"$float": "nan"},
    {"$str": "gA=="},
    {"$type": 1},
    {"$type": "m.C", "$args": [], "a": 1},
    {"$args": []},
    {"$set": [], "a": 1},
    {"$set": [], "$tuple": []},
    {"$opaque": {"type": "a"}},
)
def test_other_forms_are_refused(form: Json) -> None:
    with pytest.raises(ValueError, match=r".+"):
        from_json(form)


def lc2(*path: str, **rest: Any) -> dict[str, Any]:
    return {"lc": 2, "type": "constructor", "id": [*path], **rest}


def lc1(*path: str, **kwargs: Any) -> dict[str, Any]:
    return {"lc": 1, "type": "constructor", "id": [*path], "kwargs": kwargs}


ENVELOPES: list[tuple[Any, Value]] = [
    (lc2("builtins", "set", args=[[1, 2]]), Tagged("builtins.set", [1, 2])),
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
    (lc2("m", "C", method="make", args=[1]), Tagged("m.C.make", 1)),
    (lc2("m", "C"), Tagged("m.C", [])),
    (
        lc1("langchain", "schema", "messages", "AIMessage", content="x"),
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
    (js("Map", [["b", 1], ["a", [2]]]), {"b": 1, "a": [2]}),
    (js("Map", [[2, "n"], ["2", "t"], [None, 0]]), {2: "n", "2": "t", None: 0}),
    (js("Map", [[1, "a"], [True, "b"]]), Tagged("javascript.Map", [[1, "a"], [True, "b"]])),
    (js("Map", [[{"x": 1}, "a"]]), Tagged("javascript.Map", [[{"x": 1}, "a"]])),
    (js("Map", [[js("Map", []), js("Map", [])]]), Tagged("javascript.Map", [[{}, {}]])),
    (js("RegExp", "^a+", "gi"), Tagged("javascript.RegExp", ["^a+", "gi"])),
    (js("Error", "went wrong"), Tagged("javascript.Error", "went wrong")),
    (js("Uint8Array", [0, 255], method="from"), b"\x00\xff"),
]
AS_THEY_ARE: list[Any] = [
    {"lc": 2, "type": "undefined", "more": 1},
    {"lc": 2, "type": "delta_snapshot"},
    js("Set", "not a list"),
    js("Set", [1], method="constructor"),
    js("Map", [["key"]]),
    js("Map", {"k": 1}),
    js("Uint8Array", [256], method="from"),
    js("Uint8Array", [True, -1, 0.5]),
    js("Uint8Array", "aGk=", method="fromBase64"),
    js("RegExp", "a"),
    js("Function", "return process"),
    {"0": 0, "1": 255},
    lc2("m", "C", method={"x": 1}, args=[1]),
    lc2("m", "C", args=[1], kwargs={"x": 1}),
    lc2("m", "C", args="x"),
    lc2("m", "C", kwargs=[1]),
    lc2("builtins", "bytes", method="fromhex", args=["zz"]),
    {"lc": 2, "type": "constructor", "id": "m.C"},
    {"lc": 2, "type": "constructor", "id": [1, "C"]},
    {"lc": True, "type": "constructor", "id": ["m", "C"]},
    {"lc": [1], "type": "constructor", "id": ["m", "C"]},
    {"lc": 1, "type": "constructor", "id": ["m", "C"], "kwargs": 1},
]


@pytest.mark.parametrize(("envelope", "value"), [*ENVELOPES, *JAVASCRIPT])
def test_envelopes(envelope: Any, value: Value) -> None:
    assert (read(envelope), read({"a": [envelope]})) == (value, {"a": [value]})


@pytest.mark.parametrize("envelope", AS_THEY_ARE)
def test_other_shapes_stay_plain(envelope: Any) -> None:
    assert read(envelope) == envelope


def test_what_python_reads_in_another_way() -> None:
    value: Any = decode(TypedBytes("json", b"[NaN, Infinity, 1e999]"))
    assert math.isnan(value[0])
    assert value[1:] == [math.inf, math.inf]
    digits = "-" + "9" * 5000
    assert decode(TypedBytes("json", digits.encode())) == Tagged("builtins.int", digits)
    assert decode(TypedBytes("json", b'"\\ud800"')) == "\ud800"


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b'"\xff"', b"[1] 2", b"nul", b"'a'"])
def test_what_is_not_json(data: bytes) -> None:
    value = decode(TypedBytes("json", data))
    assert isinstance(value, Opaque)
    assert (value.type, value.size) == ("json", len(data))


def read(envelope: Any) -> Value:
    return decode(TypedBytes("json", json.dumps(envelope).encode()))


@cases(
    "text value",
    (r'{"l\u0063": 2, "type": "undefined"}', UNDEFINED),
    (r'{"lg\u005fname": "DeltaSnapshot", "value": 1}', Tagged(DELTA_SNAPSHOT, 1)),
    (f"[{'1' * 4001}]", [Tagged("builtins.int", "1" * 4001)]),
)
def test_an_envelope_in_any_spelling_is_found(text: str, value: Value) -> None:
    assert decode_json(text.encode(), DEFAULT_LIMITS) == value
