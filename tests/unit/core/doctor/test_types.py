"""The names that a decoder would import or call: all are found; which are dangerous or blocked."""

import importlib
import json
import pickle
import runpy
import sys
import tomllib
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.serde import _msgpack
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from ormsgpack import OPT_NON_STR_KEYS, Ext, packb

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import DEFAULT_LIMITS, PastLimit
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.doctor import types as named_types
from ckpt_cli.core.doctor.types import (
    ADMITTED,
    ADMITTED_METHODS,
    NamedIn,
    Names,
    TypeName,
    can_be_allowed,
    is_blocked,
    is_dangerous,
    is_strict,
    names_by_channel,
    type_names,
)
from tests.kit.cases import cases
from tests.kit.hostile.corpus import hostile_rows


class Shade(Enum):
    os = "os"
    """An enum whose member is called as a module."""


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Holder:
    value: Any


HERE = __name__


def ext(code: int, *parts: Any) -> Ext:
    return Ext(code, packb(parts))


def found(tag: str, data: bytes) -> set[str]:
    return {one.text for one in type_names(TypedBytes(tag, data))}


def in_msgpack(value: Any) -> set[str]:
    return found("msgpack", packb(value))


ORDER = ["app.models", "Order", {"number": 1}, "more"]


@cases(
    "code payload named",
    *((code, ORDER, "app.models.Order") for code in (0, 1, 2, 4, 5)),
    (3, ["datetime", "datetime", "2026-04-07", "fromisoformat"], "datetime.datetime.fromisoformat"),
    (6, ["<f8", [1], "C", b"12345678"], "numpy.ndarray"),
    # Only a saver takes these for calls.
    (0, ["os", "system", "true", "five", "parts"], "os.system"),
    (0, {0: "os", 1: "system", 2: "true"}, "os.system"),
    # Nothing can be taken of others, nor of a snapshot.
    *((0, 5, ""), (0, ["m"], ""), (0, [1, "C", 2], ""), (0, ["", "C", 2], "")),
    *((3, ["m", "C", 1], ""), (7, ["m", "C", 1], "")),
)
def test_ext_types_name_their_class_and_method(code: int, payload: Any, named: str) -> None:
    inside = Ext(code, packb(payload, option=OPT_NON_STR_KEYS))
    assert in_msgpack({"list": [1, inside]}) == ({named} if named else set())


def test_what_a_saver_would_run_before_it_fails_is_found() -> None:
    call = packb(ext(0, "os", "system", "true"))
    assert found("msgpack", b"\x92" + call) == {"os.system"}
    assert in_msgpack(Ext(2, b"\x94" + packb("a") + packb("B") + call)) == {"os.system"}


@cases(
    "hidden",
    ext(0, ext(0, "builtins", "str", "os"), "system", "true"),
    ext(0, "os", ext(0, "builtins", "str", "system"), "true"),
    Ext(0, packb(ext(0, "builtins", "list", ["os", "system", "true"]))),
)
def test_a_name_that_is_computed_is_dangerous(hidden: Ext) -> None:
    names = type_names(TypedBytes("msgpack", packb([hidden])))
    assert any(one.is_computed and is_dangerous(one) for one in names)


def test_a_value_that_is_nested_too_deeply_is_not_read() -> None:
    data = packb("x")
    for _ in range(300):
        data = packb(Ext(0, b"\x93" + packb("a") + packb("B") + data))
    with pytest.raises((PastLimit, ValueError)):
        type_names(TypedBytes("msgpack", data))


def test_a_long_value_is_read_if_it_may_name_something(monkeypatch: pytest.MonkeyPatch) -> None:
    long = "text " * 4_000_000
    assert in_msgpack(long) == found("json", json.dumps(long).encode()) == set()
    assert len(in_msgpack([long, ext(0, "app", "Order", 1)])) == 1
    monkeypatch.setattr(named_types, "WHOLE_LIMITS", DEFAULT_LIMITS)
    with pytest.raises(PastLimit):
        in_msgpack([long, ext(0, "app", "Invoice", 1)])


def test_envelopes_in_json_name_their_class() -> None:
    value = [
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "AIMessage"]},
        {"lc": 2, "type": "constructor", "id": ["app", "Day"], "method": "parse"},
        {"lc": 1, "type": "secret", "id": ["API", "KEY"]},
        {"lc": 2, "type": "constructor", "id": ["Set"], "args": [[]]},
        {"lc": 3, "type": "constructor", "id": ["app", "Other"]},
    ]
    names = {"langchain.schema.AIMessage", "app.Day.parse"}
    assert found("json", json.dumps(value).encode()) == names
    assert found("json", json.dumps(value).replace('"lc"', '"\\u006cc"').encode()) == names


VALUES = [
    (Holder([Pair(1, 2)]), {f"{HERE}.Holder", f"{HERE}.Pair"}),
    (Shade.os, {f"{HERE}.Shade"}),
    (datetime(2026, 4, 7, tzinfo=UTC), {"datetime.datetime", "datetime.timezone"}),
    (defaultdict(list), {"collections.defaultdict", "builtins.list"}),
    (range(3), {"builtins.range"}),
    (Holder, {f"{HERE}.Holder"}),
]


@pytest.mark.parametrize("protocol", range(2, 6))
@pytest.mark.parametrize(("value", "names"), VALUES, ids=lambda one: type(one).__name__)
def test_pickles_name_their_classes(value: Any, names: set[str], protocol: int) -> None:
    typed = TypedBytes("pickle", pickle.dumps(value, protocol))
    assert names <= {one.text.removesuffix(".os") for one in type_names(typed)}
    assert not any(map(is_dangerous, type_names(typed)))


def test_a_pickle_that_drops_the_result_of_a_call_is_seen_through() -> None:
    (one,) = type_names(TypedBytes("pickle", b"cos\nsystem\n(X\x04\x00\x00\x00truetR0N."))
    assert (one.text, one.called) == ("os.system", True)
    import functools
    import os

    for value, dangerous in ((os.remove, False), (functools.partial(os.remove, "x"), True)):
        names = type_names(TypedBytes("pickle", pickle.dumps({"on_end": value})))
        assert any(map(is_dangerous, names)) is dangerous


BODY = {
    "v": 4,
    "channel_values": {"order": {"$": "ORDER"}, "plain": "text"},
    "channel_versions": {"order": 1},
    "pending_sends": ["SEND"],
}


def test_the_names_in_a_body_are_told_apart_by_channel() -> None:
    def body(order: Any, send: Any) -> Any:
        return BODY | {"channel_values": {"order": [order], "plain": 1}, "pending_sends": [send]}

    def envelope(name: str) -> Any:
        return {"lc": 2, "type": "constructor", "id": ["app", name], "args": []}

    def named(typed: TypedBytes) -> dict[str | None, set[str]]:
        return {key: {one.text for one in it} for key, it in names_by_channel(typed).items()}

    packed = packb(body(ext(0, "app", "Order", 1), ext(0, "app", "Send", 1)))
    text = json.dumps(body(envelope("Order"), envelope("Send"))).encode()
    for typed in (TypedBytes("msgpack", packed), TypedBytes("json", text)):
        assert named(typed) == {"order": {"app.Order"}, None: {"app.Send"}}
    pickled = TypedBytes("pickle", pickle.dumps(body(Holder(1), Pair(1, 2))))
    assert named(pickled) == {"order": {f"{HERE}.Holder"}, None: {f"{HERE}.Pair"}}


def _names_of_all(typed: TypedBytes) -> dict[str | None, Names]:
    return {None: type_names(typed)}


def test_all_hostile_calls_are_found_and_none_is_made(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    rows = hostile_rows(marker)
    decode(TypedBytes("pickle", b"N."))
    old = set(sys.modules)
    dangerous = set()
    for row in rows:
        if not isinstance(row.data, bytes):
            continue
        typed = TypedBytes(row.type or "", row.data)
        read = names_by_channel if row.table == "checkpoint" else _names_of_all
        with suppress(ValueError, PastLimit):
            if any(map(is_dangerous, frozenset().union(*read(typed).values()))):
                dangerous.add(row.name)
    assert not marker.exists()
    ours = ("ckpt_", "tests.", "encodings.")
    assert {one for one in set(sys.modules) - old if not one.startswith(ours)} <= {"_compat_pickle"}
    calls = {row.name for row in rows if "os.mkdir" in row.name or "os.system" in row.name}
    calls |= {f"write: pickle {name}" for name in ("INST", "OBJ", "NEWOBJ", "getattr called")}
    assert calls <= dangerous
    assert len(dangerous) > 40


NAMING = {
    **{f"pickle {n}": ("pickle", pickle.dumps([Holder(1), Pair(1, {2})], n)) for n in range(6)},
    "msgpack": ("msgpack", packb(BODY | {"pending_sends": [ext(2, "app", "Order", {"a": [1]})]})),
    "json": ("json", b'{"lc": 2, "type": "constructor", "id": ["app", "\\u00e9"], "args": []}'),
}
"""Sound values of each serializer, with names."""


@given(st.sampled_from(list(NAMING)), st.integers(0, 300), st.binary(max_size=3))
def test_a_value_that_is_cut_or_changed_names_something_or_is_refused(
    name: str, place: int, bytes_there: bytes
) -> None:
    tag, data = NAMING[name]
    changed = data[:place] + bytes_there + data[place + len(bytes_there) :]
    for damaged in (bytes_there, data[:place], changed):
        for read in (type_names, names_by_channel):
            with suppress(ValueError, PastLimit):
                read(TypedBytes(tag, damaged))


def named(text: str, method: str = "", *, called: bool = True) -> TypeName:
    module, _, name = text.partition(":")
    return TypeName(module, name, NamedIn.PICKLE, method, called)


DANGEROUS = """
    os:system posix:system nt:system subprocess:Popen commands:getoutput pty:spawn builtins:eval
    builtins:__import__ builtins:open builtins:setattr __builtin__:execfile shutil:rmtree
    runpy:run_path importlib:import_module pickle:loads cPickle:loads marshal:loads ctypes:CDLL
    socket:socket webbrowser:open code:InteractiveInterpreter.runcode types:FunctionType io:open
    pathlib:Path.unlink urllib.request:urlopen dill:loads joblib:load torch:load yaml:unsafe_load
    numpy:load requests:get collections:_sys.modules.get app:Order.__init__.__globals__.get
"""
HARMLESS = """
    datetime:datetime decimal:Decimal pathlib:Path pathlib._local:PosixPath uuid:UUID re:_compile
    zoneinfo:ZoneInfo._unpickle collections:deque http:HTTPStatus copyreg:_reconstructor
    functools:partial operator:attrgetter builtins:getattr builtins:set builtins:ValueError
    builtins:print os:stat_result os:fspath posixpath:join subprocess:CompletedProcess
    socket:AddressFamily types:SimpleNamespace numpy:dtype numpy._core.multiarray:_reconstruct
    pandas.core.frame:DataFrame torch._utils:_rebuild_tensor_v2 torch.storage:_load_from_bytes
    langchain_core.messages.ai:AIMessage app.models:Order app:system shop.tools:eval my.os:system
    sys_tools:exec models:Outer.Inner __main__:os
"""


@pytest.mark.parametrize("text", DANGEROUS.split())
def test_what_runs_code_or_changes_files_is_dangerous(text: str) -> None:
    assert is_dangerous(named(text))
    assert not is_dangerous(named(text, called=False))


@pytest.mark.parametrize("text", HARMLESS.split())
def test_what_agents_store_is_harmless(text: str) -> None:
    assert not is_dangerous(named(text))


@cases(
    "text method expected",
    ("datetime:datetime", "fromisoformat", False),
    ("app:Order", "parse", False),
    ("pathlib:Path", "write_text", True),
    ("app:Order", "__subclasses__", True),
    ("shutil:os", "system", True),
)
def test_methods_are_judged_too(text: str, method: str, *, expected: bool) -> None:
    assert is_dangerous(named(text, method)) is expected


MODULES = """
    _pickle _thread bdb builtins cProfile code codecs ctypes importlib io marshal os pdb pickle pty
    pydoc runpy shutil signal socket subprocess sys tempfile timeit trace types
"""
TABLE = tomllib.loads(files("ckpt_cli.data").joinpath("dangerous_names.toml").read_text("utf-8"))
NAMES = {module: names for group in TABLE.values() for module, names in group.items()}
ELSEWHERE = "chflags lchflags lchmod startfile OleDLL WinDLL execfile _clear_type_cache"
"""Names of other systems, and of other releases of Python."""


@pytest.mark.parametrize("module", MODULES.split())
def test_the_listed_names_of_python_exist(module: str) -> None:
    """A name with a typing error would never be found."""
    listed = {name.partition(".")[0] for name in NAMES[module].split()}
    assert listed - set(dir(importlib.import_module(module))) <= set(ELSEWHERE.split())


def test_the_lists_are_those_of_the_installed_library() -> None:
    assert ADMITTED == _msgpack.SAFE_MSGPACK_TYPES
    assert ADMITTED_METHODS == _msgpack.SAFE_MSGPACK_METHODS


@cases(
    "text form method blocked allowed",
    ("app.Order", NamedIn.MSGPACK, "", True, True),
    ("langgraph.types.Other", NamedIn.MSGPACK, "", True, True),
    ("os.system", NamedIn.MSGPACK, "", True, False),
    ("datetime.datetime", NamedIn.METHOD, "fromisoformat", False, False),
    ("pendulum.DateTime", NamedIn.METHOD, "fromisoformat", True, False),
    ("numpy.ndarray", NamedIn.ARRAY, "", False, False),
)
def test_what_is_blocked_and_what_a_list_admits(
    text: str, form: NamedIn, method: str, *, blocked: bool, allowed: bool
) -> None:
    module, _, name = text.rpartition(".")
    named = TypeName(module, name, form, method)
    assert is_blocked(named) is blocked
    assert can_be_allowed(named) is allowed


@pytest.mark.parametrize("value", ["", "0", "false", "no", "1", "true", "TRUE", "yes", "on", "2"])
def test_strict_mode_is_on_for_the_same_values(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGGRAPH_STRICT_MSGPACK", value)
    library = runpy.run_path(_msgpack.__file__)
    assert is_strict({"LANGGRAPH_STRICT_MSGPACK": value}) is library["STRICT_MSGPACK_ENABLED"]
    assert not is_strict({})


class Moment(datetime):
    """What the serializer stores as a call of a method."""


def test_a_method_is_never_admitted_not_even_without_strict_mode() -> None:
    (named,) = type_names(TypedBytes(*JsonPlusSerializer().dumps_typed(Moment(2026, 4, 7))))
    assert (named.form, named.method) == (NamedIn.METHOD, "fromisoformat")
    assert is_blocked(named)
    assert not can_be_allowed(named)
