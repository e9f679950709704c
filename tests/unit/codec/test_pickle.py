"""Pickles as inert values, in memory and in files."""

import codecs
import collections
import copyreg
import datetime as dt
import pathlib
import pickle
import uuid
import zoneinfo
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.codec import (
    Cut,
    Limits,
    Opaque,
    Tagged,
    Value,
    decode,
    decode_checkpoint,
    to_json,
)
from ckpt_backends.codec.pickle import Dict, FilePosition, Machine, read_pickle_file
from ckpt_backends.model import TypedBytes
from tests.kit.cases import cases
from tests.unit.codec import things
from tests.unit.codec.things import THINGS, Point

PROTOCOLS = range(6)
HERE, THERE = __name__, things.__name__


def read(value: object, protocol: int = 4, limits: Limits | None = None) -> Value:
    return decode(TypedBytes("pickle", pickle.dumps(value, protocol)), limits or Limits())


def raw(data: bytes) -> Value:
    return decode(TypedBytes("pickle", data))


class Names(list[str]):
    pass


class Calls:
    def __init__(self, *call: object) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call


NEEDS_PROTOCOL_2 = ("pydantic", "send")
"""Slots cannot be pickled before."""


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_known_classes_look_as_from_msgpack(protocol: int) -> None:
    for name, (thing, value) in THINGS.items():
        if protocol >= 2 or name not in NEEDS_PROTOCOL_2:
            found = to_json(_one_spelling(read(thing, protocol)))
            assert found == to_json(_one_spelling(value)), name


def _one_spelling(value: Value) -> Value:
    """Tagged payloads of one argument, and dicts of fields, in one form for both codecs."""
    match value:
        case Tagged("datetime.time", dict() as fields):
            return Tagged("datetime.time", {**fields, "fold": fields.get("fold", 0)})
        case Tagged(name, list() as parts) if name.startswith("pathlib."):
            # Python 3.13 has a module of its own for them, and does not split what it pickles.
            return Tagged("pathlib.Path", str(pathlib.PurePosixPath(*map(str, parts))))
    return value


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_other_classes(protocol: int) -> None:
    zone = zoneinfo.ZoneInfo("Europe/Berlin")
    in_zone = Tagged("zoneinfo.ZoneInfo", "Europe/Berlin")
    assert read(zone, protocol) == in_zone
    assert read(dt.datetime(2026, 4, 7, tzinfo=zone), protocol) == Tagged(
        "datetime.datetime", ["2026-04-07T00:00:00", in_zone]
    )
    assert read(1 + 2j, protocol) == Tagged("builtins.complex", [1.0, 2.0])
    assert read(range(3), protocol) == Tagged("builtins.range", [0, 3, 1])
    assert read(bytearray(b"a\xff"), protocol) == Tagged("builtins.bytearray", b"a\xff")
    assert read((1, 2), protocol) == Tagged("builtins.tuple", [1, 2])
    assert read(2**80, protocol) == 2**80
    assert read(len, protocol) == Tagged("ckpt.global", "builtins.len")
    assert read(Names("ab"), protocol) == Tagged(f"{HERE}.Names", ["a", "b"])
    assert read(Point(1, 2), protocol) == Tagged(f"{THERE}.Point", [1, 2])
    counted = Tagged("collections.Counter", {"a": 2, "b": 1})
    assert read(collections.Counter("aab"), protocol) == counted
    bounded: Value = {"__args__": [Tagged("builtins.tuple", []), 3], "__items__": [1]}
    assert read(collections.deque([1], 3), protocol) == Tagged("collections.deque", bounded)


def test_arrays_are_read_as_numpy_pickles_them() -> None:
    import numpy

    array = numpy.asfortranarray(numpy.eye(2, dtype=">i4"))
    fields: Value = {"dtype": ">i4", "shape": [2, 2], "order": "F", "data": array.tolist()}
    for protocol in PROTOCOLS:
        assert read(array, protocol) == Tagged("numpy.ndarray", fields)
    objects = numpy.array([None, "a"], dtype=object)
    fields = {"dtype": "|O8", "shape": [2], "order": "C", "data": [None, "a"]}
    assert read(objects) == Tagged("numpy.ndarray", fields)
    parts: Any = numpy.zeros(1).__reduce_ex__(2)
    rebuilt, args, (version, _, *rest) = parts[:3]
    found: Any = read(Calls(rebuilt, args, (version, (-1,), *rest)))
    assert found.type.endswith("._reconstruct")
    one: Value = {"dtype": "<f8", "shape": [], "order": "C", "data": 1.5}
    assert read(numpy.float64(1.5)) == Tagged("numpy.generic", one)


def test_what_is_called_is_only_named() -> None:
    assert read(Calls(print, ("a",))) == Tagged("builtins.print", "a")
    assert read(Calls(print, ())) == Tagged("builtins.print", [])
    assert read(Calls(print, (), {"a": 1})) == Tagged("builtins.print", {"a": 1})
    assert read(Calls(print, (1,), {"a": 1})) == Tagged(
        "builtins.print", {"__args__": [1], "__state__": {"a": 1}}
    )
    assert raw(b"Pkey\n.") == Tagged("ckpt.persistent", "key")
    assert raw(b"\x82\x07.") == Tagged("ckpt.extension", 7)
    assert raw(b"\x82\x07)R.") == Tagged("ckpt.call", {"__callee__": Tagged("ckpt.extension", 7)})
    assert raw(b"}(]K\x01u.") == Tagged("builtins.dict", [[[], 1]])
    assert read({(1, 2): 3}) == {Tagged("builtins.tuple", [1, 2]): 3}
    many = read({(n, n): n for n in range(3000)})
    assert isinstance(many, Tagged)
    assert many.type == "builtins.dict"
    assert raw(b"(K\x011K\x02.") == 2
    assert raw(b"K\x01(0.") == raw(b"K\x01K\x020.") == 1


NOON = b"\x07\xea\x04\x07\x0c\0\0\0\0\0"
TWO_DAYS: Value = [Tagged("datetime.timedelta", [2, 0, 0])]


@cases(
    "call shown",
    ((dt.date, (b"abc",)), [b"abc"]),
    ((dt.time, (b"\x01\0",)), b"\x01\0"),
    ((dt.datetime, ("x",)), "x"),
    ((dt.datetime, (b"\0" * 10,)), b"\0" * 10),
    ((dt.datetime, (NOON, 7)), ["2026-04-07T12:00:00", 7]),
    (
        (dt.datetime, (NOON, Calls(dt.timezone, (dt.timedelta(2),)))),
        ["2026-04-07T12:00:00", Tagged("datetime.timezone", TWO_DAYS)],
    ),
    ((dt.datetime, (NOON,), {"a": 1}), {"__args__": [NOON], "__state__": {"a": 1}}),
    ((uuid.UUID, (), {"int": 1 << 128}), {"int": 1 << 128}),
    ((uuid.UUID, (), {"int": -1}), {"int": -1}),
    ((uuid.UUID, ("x",), {"int": 1}), {"__args__": ["x"], "__state__": {"int": 1}}),
    ((codecs.encode, ("\u0100", "latin1")), ["\u0100", "latin1"]),
    ((codecs.encode, ("a", "utf-16")), ["a", "utf-16"]),
    ((bytearray, ()), b""),
    ((bytearray, (5,)), 5),
    ((bytearray, ("\xff", "latin-1")), b"\xff"),
    ((bytearray, ("\u0100", "latin-1")), ["\u0100", "latin-1"]),
    ((bytes, (5,)), 5),
    ((set, ("ab",)), "ab"),
    ((collections.deque, (), {"a": 1}), {"a": 1}),
    (
        (collections.defaultdict, (1,), None, None, iter([("a", 1)])),
        {"__args__": [1], "__entries__": {"a": 1}},
    ),
    ((zoneinfo.ZoneInfo, (1,)), 1),
)
def test_what_a_class_would_not_take_is_shown_as_it_is(call: Any, shown: Value) -> None:
    found: Any = read(Calls(*call))
    assert found == Tagged(f"{call[0].__module__}.{call[0].__qualname__}", shown)


def test_names_of_arguments_are_kept() -> None:
    copy = Calls(copyreg.__newobj_ex__, (Names, (1,), {"k": 2}))  # type: ignore[attr-defined]
    assert read(copy) == Tagged(f"{HERE}.Names", {"__args__": [1], "__kwargs__": {"k": 2}})
    copy = Calls(copyreg.__newobj_ex__, (Names, (), {"k": 2}))  # type: ignore[attr-defined]
    assert read(copy) == Tagged(f"{HERE}.Names", {"k": 2})


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_references(protocol: int) -> None:
    shared = [1]
    assert read([shared, shared], protocol) == [[1], [1]]
    around: list[Any] = []
    around.append({"self": around})
    assert read(around, protocol) == [{"self": Tagged("ckpt.reference", 2)}]


@cases(
    "value limits kept reason",
    ([1, 2, 3, 4], Limits(nodes=3), [1, 2], "more than 3 nodes"),
    ([[[1]]], Limits(depth=2), [[None]], "nested deeper than 2 levels"),
    (["x" * 30, "y"], Limits(value_bytes=100), None, ""),
    (["x" * 90, "y" * 90], Limits(value_bytes=100), None, "longer than 100 bytes"),
)
def test_limits(value: Any, limits: Limits, kept: Any, reason: str) -> None:
    got = read(value, 4, limits)
    if not reason:
        assert got == value
        return
    assert isinstance(got, Cut)
    assert (got.reason, got.size) == (reason, len(pickle.dumps(value, 4)))
    if kept is not None:
        assert got.kept == kept


def test_a_long_pickle_keeps_its_beginning_and_references_cost_no_more_than_the_limit() -> None:
    found: Any = read(dict.fromkeys(range(5000), "x" * 100), 4, Limits(value_bytes=300_000))
    assert 1000 < len(found.kept) <= 3001
    laughs: list[Any] = ["ha"]
    for _ in range(100):
        laughs = [laughs, laughs]
    assert isinstance(read(laughs, 4, Limits(nodes=1000)), Cut)
    text = read(["x" * 1000] * 1000, 4, Limits(value_bytes=10_000))
    assert isinstance(text, Cut)
    assert len(str(text)) < 20_000


def test_a_body_is_cut_channel_by_channel() -> None:
    body = {"v": 4, "channel_values": {"big": list(range(2000)), "small": [1], "last": "x"}}
    data = pickle.dumps(body)
    found: Any = decode_checkpoint(TypedBytes("pickle", data), Limits(nodes=1000))
    values = found["channel_values"]
    assert isinstance(values.pop("big"), Cut)
    assert values == {"small": [1], "last": "x"}
    assert decode_checkpoint(TypedBytes("pickle", data)) == body


@cases(
    "data reason",
    (b"", "not a pickle: pickle exhausted before seeing STOP"),
    (b".", "not one value at the end"),
    (b"NN.", "not a pickle: more than one value at the end"),
    (b"(N.", "not a pickle: more than one value at the end"),
    (b"N.N", "not a pickle: 1 bytes behind the end"),
    (b"h\x00.", "not a pickle: GET of what was never PUT"),
    (b"K\x01K\x02a.", "not a pickle: APPENDS on a int"),
    (b"cos\nx\nK\x01R.", "not a pickle: a call whose arguments are not a tuple"),
    (b"K\x01K\x02\x93.", "not a pickle: STACK_GLOBAL without two texts"),
    (b"\x97.", "not a pickle: a buffer that is kept outside of the pickle"),
    (b"X\xff\xff\xff\x7fab.", "not a pickle: expected 2147483647 bytes"),
)
def test_broken_pickles_are_named(data: bytes, reason: str) -> None:
    got = raw(data)
    assert isinstance(got, Opaque)
    assert reason in got.reason


WHOLE = [0, -1, 255, 256, 65_535, 65_536, 2**31, -(2**31), 2**63, -(10**700)]
PLAIN: list[Any] = [None, True, False, *WHOLE, 1.5, 1e300, "", "é" * 300, b"", b"x" * 300, b"\xff"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_plain_values_are_what_they_were(protocol: int) -> None:
    value = [*PLAIN, [], [[1], {}], {"a": PLAIN, 2: [None], "k" * 300: {"b": {}}}]
    assert read(value, protocol) == value


def test_the_machine_knows_every_opcode() -> None:
    import pickletools

    from ckpt_backends.codec import pickle as machine

    known: dict[str, Callable[..., None]] = machine.STEPS
    assert set(known) == {opcode.name for opcode in pickletools.opcodes}


LONG = {"text": "é\ud800" * 700_000, "bytes": bytes(range(256)) * 5000, "short": "x" * 100}


def read_file(data: bytes, path: Path) -> Any:
    path.write_bytes(data)
    with path.open("rb") as file:
        return read_pickle_file(file)


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_what_is_long_stays_in_the_file(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "one.pckl"
    root = read_file(pickle.dumps(LONG, protocol), path)
    assert isinstance(root, Dict)
    found = dict(root.pairs)
    assert found["short"] == LONG["short"]
    with path.open("rb") as file:
        for name in ("text", "bytes"):
            place = found[name]
            assert isinstance(place, FilePosition)
            assert place.size == len(LONG[name])
            data = place.read(file)
            whole = data.decode("utf-8", "surrogatepass") if place.is_text else data
            assert whole == LONG[name]
    path.write_bytes(b"")
    with path.open("rb") as file, pytest.raises(ValueError, match="shorter than it was"):
        found["text"].read(file)


def test_a_file_reads_as_in_memory(tmp_path: Path) -> None:
    rows = {f"key {n}": (n, n * 1.5, -n, f"{n}" * 50, 1 << n % 200) for n in range(500)}
    data = pickle.dumps(rows, 2)
    machine = Machine(10**7)
    machine.run(data)
    assert read_file(data, tmp_path / "one.pckl").pairs == machine.root.pairs


@given(st.binary(max_size=60), st.sampled_from([b"", b"\x80\x04", b"](", b"cos\nx\n)R", b"X"]))
def test_value_errors(tmp_path_factory: pytest.TempPathFactory, data: bytes, start: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.pckl"
    try:
        read_file(start + data + b".", path)
    except ValueError:
        return
    assert path.stat().st_size
