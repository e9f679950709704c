"""Hostile rows, and a store with one thread for each of them."""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ormsgpack import OPT_NON_STR_KEYS, Ext, packb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

Table = Literal["checkpoint", "write", "metadata", "thread_id", "channel"]
DDL = """
CREATE TABLE checkpoints (
  thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
  parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB,
  PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
CREATE TABLE writes (
  thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
  task_id TEXT NOT NULL, task_path TEXT NOT NULL DEFAULT '', idx INTEGER NOT NULL,
  channel TEXT NOT NULL, type TEXT, value BLOB,
  PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
"""
ORDINARY_ID = "1f0a0000-0000-6000-8000-000000000001"
HOSTILE_ID = "1f0a0000-0000-6000-8001-000000000002"
TASK_ID = "11111111-2222-3333-4444-555555555555"
METADATA = b'{"source": "loop", "step": 1, "parents": {}}'


@dataclass(frozen=True, slots=True)
class Row:
    """One hostile value, and its place in a store."""

    name: str
    table: Table
    """`checkpoint`, `write` and `metadata` rows contain `data`; for `thread_id` and `channel` it
    is the name.
    """
    type: str | None
    data: bytes | str | None
    cycle: bool = False
    """The checkpoint's parent is its own child."""

    @property
    def thread_id(self) -> str:
        """The thread of this row in the store that `build_store` makes."""
        return str(self.data) if self.table == "thread_id" else f"hostile {self.name}"


def hostile_rows(marker: Path) -> list[Row]:
    """Return the corpus. A program that executes one of its payloads creates the directory
    `marker`.
    """
    values = [
        *_code(str(marker)),
        *_pickled_code(str(marker)),
        *_pickle_bombs(),
        *_pickle_shapes(),
        *_encrypted(),
        *_broken(),
        *_deep(),
        *_text(),
    ]
    return [
        *(Row(f"write: {name}", "write", tag, data) for name, tag, data in values),
        *(
            Row(f"state: {name}", "checkpoint", tag, _around(tag, data))
            for name, tag, data in values
            if tag in ("msgpack", "json") and data is not None
        ),
        *(Row(f"body: {name}", "checkpoint", tag, data) for name, tag, data in _bodies()),
        *(Row(f"metadata: {name}", "metadata", "json", data) for name, data in _metadata(marker)),
        *(Row(f"thread id: {name}", "thread_id", None, data) for name, data in _ids()),
        *(Row(f"channel: {name}", "channel", None, data) for name, data in _names()),
        Row("parent cycle", "checkpoint", "msgpack", ordinary_body(HOSTILE_ID), cycle=True),
    ]


HEAVY = {
    "hostile write: pickle laughs of objects",
    "hostile write: too many empty maps",
    "hostile state: too many empty maps",
    "hostile state: too many empty lists",
    "hostile state: ext types and wrong claims",
    "hostile state: 17 MiB of text",
}
"""Threads that take seconds each, as their limits allow."""


def light_rows(marker: Path) -> list[Row]:
    """Return the corpus without what takes seconds."""
    return [row for row in hostile_rows(marker) if row.thread_id not in HEAVY]


def build_store(path: Path, rows: Iterable[Row]) -> list[str]:
    """Write rows into a new SQLite file in LangGraph's layout; returns the thread ids."""
    rows = list(rows)
    with sqlite3.connect(path) as db:
        db.executescript(DDL)
        for row in rows:
            _insert(db, row)
    db.close()
    return [row.thread_id for row in rows]


ODD_VALUES = (7, -2.5, b"\xff\x00\x1b[2J", None, "text", 2**62, float("inf"))
"""Values that SQLite accepts in any column, whatever its declared type."""


def build_odd_store(path: Path) -> list[str]:
    """Make a store with each odd value once in each column; returns ids that show its threads."""
    id_, body = ORDINARY_ID, ordinary_body(ORDINARY_ID)
    tables: dict[str, list[object]] = {
        "checkpoints": ["", id_, None, "msgpack", body, METADATA],
        "writes": ["", id_, TASK_ID, "~__pregel_pull, node", 0, "answer", "msgpack", packb("x")],
    }
    threads = []
    with sqlite3.connect(path) as db:
        # Without declared types and keys, a column keeps values as they are.
        for table, columns in _COLUMNS.items():
            db.execute(f"CREATE TABLE {table} (thread_id, {', '.join(columns)})")
        for table, columns in _COLUMNS.items():
            for place, column in enumerate(["thread_id", *columns]):
                for n, odd in enumerate(ODD_VALUES):
                    thread_id = f"odd {table} {column} {n}"
                    threads.append(thread_id)
                    for one, ordinary in tables.items():
                        row: list[object] = [thread_id, *ordinary]
                        if one == table:
                            row[place] = odd
                        marks = ", ".join("?" * len(row))
                        db.execute(f"INSERT INTO {one} VALUES ({marks})", row)
    db.close()
    return [*threads, "", "7", "-2.5", "text", str(2**62), "Inf"]


_KEY = ("checkpoint_ns", "checkpoint_id")
_COLUMNS = {
    "checkpoints": (*_KEY, "parent_checkpoint_id", "type", "checkpoint", "metadata"),
    "writes": (*_KEY, "task_id", "task_path", "idx", "channel", "type", "value"),
}


def ordinary_body(checkpoint_id: str, channel: str = "answer") -> bytes:
    """Return a valid checkpoint body."""
    return packb(
        {
            "v": 4,
            "ts": "2026-04-07T10:00:00+00:00",
            "id": checkpoint_id,
            "channel_values": {channel: "forty-two"},
            "channel_versions": {channel: f"{1:032}.0.5"},
            "versions_seen": {"__input__": {}, "node": {channel: f"{1:032}.0.5"}},
            "updated_channels": None,
        }
    )


def _insert(db: sqlite3.Connection, row: Row) -> None:
    """Insert an ordinary checkpoint, and one with the hostile value."""
    values: tuple[Any, ...] = ("msgpack", ordinary_body(HOSTILE_ID), METADATA)
    tag, body, metadata = values
    write: tuple[Any, ...] = ()
    match row.table:
        case "checkpoint":
            tag, body = row.type, row.data
        case "metadata":
            metadata = row.data
        case "channel":
            body = ordinary_body(HOSTILE_ID, str(row.data))
            write = (row.data, "msgpack", packb("x"))
        case "write":
            write = ("answer", row.type, row.data)
    parent = HOSTILE_ID if row.cycle else None
    first = (ORDINARY_ID, parent, "msgpack", ordinary_body(ORDINARY_ID), METADATA)
    for one in (first, (HOSTILE_ID, ORDINARY_ID, tag, body, metadata)):
        statement = "INSERT INTO checkpoints VALUES (?, '', ?, ?, ?, ?, ?)"
        db.execute(statement, (row.thread_id, *one))
    if write:
        statement = "INSERT INTO writes VALUES (?, '', ?, ?, '~__pregel_pull, node', 0, ?, ?, ?)"
        db.execute(statement, (row.thread_id, HOSTILE_ID, TASK_ID, *write))


def _around(tag: str, value: bytes) -> bytes:
    """Return a body with `value`, whatever it is, in a channel between two ordinary ones."""
    if tag == "json":
        return (
            b'{"v": 1, "ts": "2026-04-07T10:00:00+00:00", "id": "%s", "channel_values": '
            b'{"before": "ok", "evil": %s, "after": "ok"}, "channel_versions": {"evil": "1"}, '
            b'"versions_seen": {}, "pending_sends": []}' % (HOSTILE_ID.encode(), value)
        )
    inside = b"\x83" + packb("before") + packb("ok") + packb("evil") + value
    inside += packb("after") + packb("ok")
    rest = {"channel_versions": {"evil": "1"}, "versions_seen": {}, "updated_channels": None}
    head = {"v": 4, "ts": "2026-04-07T10:00:00+00:00", "id": HOSTILE_ID}
    return b"\x87" + packb(head)[1:] + packb("channel_values") + inside + packb(rest)[1:]


class _Calls:
    """Unpickling it calls a function."""

    def __init__(self, function: Callable[..., object], argument: object) -> None:
        self.call = function, (argument,)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


class _State:
    """Unpickling it calls its `__setstate__`."""

    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __setstate__(self, state: dict[str, str]) -> None:
        os.mkdir(state["marker"])


def _code(marker: str) -> Iterator[tuple[str, str, bytes]]:
    """Yield values that make a reader import or call something."""
    for module, name in (("os", "mkdir"), ("os", "system"), ("antigravity", "fly"), ("this", "s")):
        argument = f"mkdir {marker}" if name == "system" else marker
        yield f"ext 0 {module}.{name}", "msgpack", _ext(0, module, name, argument)
        yield f"ext 1 {module}.{name}", "msgpack", _ext(1, module, name, [argument])
        envelope = {"lc": 2, "type": "constructor", "id": [module, name], "args": [argument]}
        yield f"lc 2 {module}.{name}", "json", _json(envelope)
    yield "ext 2", "msgpack", _ext(2, "os", "mkdir", {"path": marker})
    yield "ext 3", "msgpack", _ext(3, "pathlib", "Path", marker, "mkdir")
    yield "ext 4", "msgpack", _ext(4, "os", "mkdir", {"path": marker})
    yield "ext 5", "msgpack", _ext(5, "os", "mkdir", {"path": marker}, "model_validate_json")
    yield "ext in ext", "msgpack", _ext(2, "a", "B", {"x": Ext(0, packb(["os", "mkdir", marker]))})
    yield "ext in a snapshot", "msgpack", packb(Ext(7, _ext(0, "os", "mkdir", marker)))
    for method in ("mkdir", [None, "mkdir"], {"x": 1}):
        envelope = {"lc": 2, "type": "constructor", "id": ["pathlib", "Path"], "args": [marker]}
        yield f"lc 2 method {method}", "json", _json(envelope | {"method": method})
    kwargs = {"lc": 2, "type": "constructor", "id": ["os", "mkdir"], "kwargs": {"path": marker}}
    yield "lc 2 kwargs", "json", _json(kwargs)
    yield "lc 1", "json", _json(kwargs | {"lc": 1})
    yield "lc 1 secret", "json", _json({"lc": 1, "type": "secret", "id": ["PATH"]})
    yield "lc id of other things", "json", _json(kwargs | {"id": [["os"], {"a": 1}, None]})
    yield "lc id is text", "json", _json(kwargs | {"id": "os.mkdir"})
    names = ("Function", "constructor", "__proto__", "Set", "Map", "Error", "Uint8Array")
    yield "js", "json", _json([_javascript(name, f"mkdir('{marker}')") for name in names])
    calls = [_javascript(name, [marker]) | {"method": "constructor"} for name in names]
    yield "js method", "json", _json(calls)
    raw = pickle.dumps(_Calls(os.mkdir, marker))
    yield "pickle", "pickle", raw
    yield "pickle as msgpack", "msgpack", raw
    yield "pickle as bytes", "bytes", raw
    yield "pickle as json", "json", raw


def _pickled_code(marker: str) -> Iterator[tuple[str, str, bytes]]:
    """Yield pickles that call something, with every opcode that can."""
    calls: dict[str, object] = {
        "os.mkdir": _Calls(os.mkdir, marker),
        "os.system": _Calls(os.system, f"mkdir {marker}"),
        "in a state": _State(marker),
        "in an item": [{"a": _Calls(os.mkdir, marker)}],
    }
    for name, call in calls.items():
        for protocol in (0, 4):
            yield f"pickle {protocol} {name}", "pickle", pickle.dumps(call, protocol)
    text = b"X" + struct.pack("<I", len(marker)) + marker.encode()
    mkdir = b"cos\nmkdir\n"
    yield "pickle INST", "pickle", b"(S'%s'\nios\nmkdir\n." % marker.encode()
    yield "pickle OBJ", "pickle", b"(" + mkdir + text + b"o."
    yield "pickle NEWOBJ", "pickle", b"\x80\x02" + mkdir + text + b"\x85\x81."
    yield "pickle NEWOBJ_EX", "pickle", b"\x80\x04" + mkdir + text + b"\x85}\x92."
    yield "pickle SETITEM", "pickle", b"cos\nenviron\n)R" + text + text + b"s."
    getattr_of_path = b"cbuiltins\ngetattr\ncpathlib\nPath\nX\x05\x00\x00\x00mkdir\x86R"
    yield "pickle getattr called", "pickle", getattr_of_path + text + b"\x85R."
    imported = b"c__builtin__\n__import__\nX\x0b\x00\x00\x00antigravity\x85R."
    yield "pickle __import__", "pickle", imported
    yield "pickle persistent id", "pickle", b"Pos.mkdir\n."
    yield "pickle persistent object", "pickle", mkdir + text + b"\x85RQ."
    yield "pickle extension", "pickle", b"\x84\x01\x00\x00\x00" + text + b"\x85R."
    yield "pickle buffers", "pickle", b"\x80\x05\x97\x98."
    yield "pickle BUILD of a class", "pickle", b"cbuiltins\nobject\n}b."
    yield "pickle hostile names", "pickle", b"c\x1b[31mos\n[/bold]\x1b]0;x\x07\n)R."


def _pickle_bombs() -> Iterator[tuple[str, str, bytes]]:
    """Yield small pickles of large values."""
    laughs: list[object] = ["ha"] * 10
    for _ in range(30):
        laughs = [laughs] * 10
    yield "pickle laughs", "pickle", pickle.dumps(laughs)
    objects: list[object] = [_State("x")]
    for _ in range(30):
        objects = [_Calls(list, objects)] * 5
    yield "pickle laughs of objects", "pickle", pickle.dumps(objects)
    long = b"c" + b"m" * 100_000 + b"\nx\n"
    yield "pickle long name often", "pickle", b"](" + long + b"2" * 9999 + b"e."
    name = b"\x8c\x01m\x94" + b"X" + struct.pack("<I", 100_000) + b"x" * 100_000 + b"\x94"
    again = b"h\x00h\x01\x93" * 9999
    yield "pickle many long names", "pickle", b"\x80\x04](" + name + again + b"e."


def _pickle_shapes() -> Iterator[tuple[str, str, bytes]]:
    """Yield pickles that are deep, contain themselves, or claim a wrong length."""
    yield "pickle deep marks", "pickle", b"(" * 100_000 + b"t" * 100_000 + b"."
    yield "pickle deep calls", "pickle", b"cos\nx\n" + b")R" * 100_000 + b"."
    yield "pickle deep states", "pickle", b"cos\nx\n)R" * 20_000 + b"b" * 19_999 + b"."
    around: list[object] = [1]
    around.append(around)
    yield "pickle cycle", "pickle", pickle.dumps(around)
    yield "pickle cycle as a key", "pickle", b"}\x94(h\x00K\x01u."
    huge = struct.pack("<Q", 1 << 62)
    for opcode in (b"\x96", b"\x95"):
        yield f"pickle claim {opcode.hex()}", "pickle", b"\x80\x05" + opcode + huge + b"ab."
    yield "pickle memo miss", "pickle", b"h\x07."
    yield "pickle long decimal", "pickle", b"L" + b"9" * 100_000 + b"L\n."
    yield "pickle keys of one hash", "pickle", b"}(" + _same_hash() + b"u."
    yield "pickle tuple keys", "pickle", pickle.dumps({(n, n): n for n in range(10_000)})
    yield "pickle behind the end", "pickle", b"N.N."
    yield "pickle two values", "pickle", b"NN."
    yield "pickle half a pair", "pickle", b"}(K\x01u."
    yield "pickle POP of a mark", "pickle", b"N(0."
    yield "pickle call of a number", "pickle", b"K\x01)}\x92."
    yield "pickle unknown opcode", "pickle", b"\xff."
    yield "pickle of nothing", "pickle", b""
    shape = b"(" + b"\x8a\x08" + struct.pack("<q", 1 << 60) + b"K\x02t"
    dtype = b"cnumpy\ndtype\nX\x02\x00\x00\x00u1\x85R(K\x03X\x01\x00\x00\x00|tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\n)R(K\x01" + shape + dtype + b"\x89C\x01atb."
    yield "pickle huge array", "pickle", array
    times = {b"datetime\ndatetime": 10, b"datetime\ndate": 4, b"datetime\ntime": 6}
    for kind, length in times.items():
        bad = b"C" + bytes([length]) + b"\xff" * length
        yield f"pickle wrong {kind[9:].decode()}", "pickle", b"c" + kind + b"\n" + bad + b"\x85R."


def _same_hash() -> bytes:
    """Return entries of a dict with keys of more than 64 bits that all have the hash 0."""
    modulus = (1 << 61) - 1
    return b"".join(
        b"\x8a\x10" + (n * modulus << 16).to_bytes(16, "little") + b"N" for n in range(1, 20_000)
    )


def _encrypted() -> Iterator[tuple[str, str, bytes]]:
    for tag in ("msgpack+aes", "+aes", "aes+aes+aes"):
        for size in (0, 32):
            yield f"{tag} {size}", tag, bytes(range(size))


def whole_values() -> dict[str, bytes]:
    """Return one small value for each form of storage; no part of it is a whole value."""
    value = {"v": 4, "text": "né", "items": [1, 2.5, None, True, b"ab"], "n": -70_000}
    return {
        "msgpack": packb({**value, "ext": Ext(2, packb(["m", "C", {"a": [1]}]))}),
        "json": json.dumps({**value, "items": [1, 2.5, None, True]}).encode(),
        "pickle": pickle.dumps({**value, "o": _State("x"), "set": {1}, "t": (1, 2, 3, 4)}),
    }


def _broken() -> Iterator[tuple[str, str | None, bytes | None]]:
    """Yield values that do not match their tag, or claim a wrong length."""
    yield "array of 4e9", "msgpack", b"\xdd\xff\xff\xff\xff\x00"
    yield "ext of 4e9", "msgpack", b"\xc9\xff\xff\xff\xff\x00\x00"
    yield "claims inside claims", "msgpack", b"\xdd\x00\x0f\x00\x00" * 500 + b"\x00" * 1000
    many = b"\xdd" + struct.pack(">I", 600_000)
    yield "too many empty maps", "msgpack", many + b"\x80" * 600_000
    yield "too many empty lists", "json", b"[" + b"[]," * 600_000 + b"[]]"
    yield "numpy of no size", "msgpack", _ext(6, "|u1", [1 << 40, 0], "C", b"")
    yield "numpy of negative size", "msgpack", _ext(6, "|u1", [-1, -2], "C", b"ab")
    yield "numpy of objects", "msgpack", _ext(6, "|O", [1], "C", b"12345678")
    yield "ext of wrong arity", "msgpack", _ext(0, "os")
    yield "ext of no list", "msgpack", _ext(1, "os", "mkdir", "x")
    yield "parts without an end", "merged", b"\x00\x07"
    yield "ext of wrong kinds", "msgpack", _ext(2, 1, {"a": 2}, "c")
    yield "ext of nothing", "msgpack", b"\xc7\x00\x00"
    yield "ext unknown", "msgpack", packb(Ext(99, b"\x00\xff"))
    yield "ext with broken payload", "msgpack", packb(Ext(0, b"\x93\xa2os"))
    yield "empty msgpack", "msgpack", b""
    yield "text that is not UTF-8", "msgpack", b"\xa4\xff\xfe\xc0\x80"
    yield "json that is not UTF-8", "json", b'"\xff\xfe\xc0\x80"'
    wrong = [
        _javascript("Map", [["__proto__", 1], ["$type", "os.x"], ["\x1b[2J", [[]]]]),
        _javascript("Map", [[[], 1], [[], 2], [{"a": {}}, 3]]),
        _javascript("Map", [[1, 2, 3], [4]]),
        _javascript("Map", [[1, "one"], [True, "true"], [1.0, "float"]]),
        _javascript("Set", [[["deep"]], {"a": 1}, None]),
        _javascript("Uint8Array", [256, -1, 2**70]),
        _javascript("Uint8Array", [True, "1", 0.5]),
        _javascript("RegExp", "(" * 500, "\x1b]0;x\x07"),
        _javascript("Error", "\x1b[31mred [/bold]"),
        _javascript("\x1b[31mError", "named"),
    ]
    yield "js with other arguments", "json", _json(wrong)
    yield "js snapshots of snapshots", "json", _json(_snapshots(200))
    yield "json with a surrogate", "json", b'"\\ud800 \\udfff"'
    yield "json with a long integer", "json", b"1" * 10_000
    yield "json with infinities", "json", b"[NaN, Infinity, -Infinity, 1e999]"
    yield "unknown type", "zip+rot13", b"whatever"
    yield "hostile type", "\x1b]0;owned\x07[bold]", b"whatever"
    yield "no type", None, b"\xc0"
    yield "no value", "msgpack", None
    yield "neither", None, None


def _javascript(name: str, *args: Any) -> dict[str, Any]:
    """Return an envelope in the form of LangGraph.js."""
    found = {"lc": 2, "type": "constructor", "id": [name], "method": None}
    return {**found, "args": [*args], "kwargs": {}}


def _snapshots(depth: int) -> Any:
    value: Any = {"lc": 2, "type": "undefined"}
    for _ in range(depth):
        value = {"lc": 2, "type": "delta_snapshot", "value": value}
    return value


def _deep() -> Iterator[tuple[str, str, bytes]]:
    """Yield values that overflow the stack of a recursive reader, and one that fills a screen."""
    exts = b"\xc0"
    claims = b"\xc0"
    for _ in range(600):
        exts = _wrap(0, b"\x93\xa1a\xa1b" + exts)
    for _ in range(60):
        claims = _wrap(7, b"\xdc\xff\xff" * 1000 + claims)
    yield "arrays", "msgpack", b"\x91" * 100_000 + b"\xc0"
    yield "ext types", "msgpack", exts
    yield "ext types and wrong claims", "msgpack", claims
    yield "json arrays", "json", b"[" * 100_000 + b"]" * 100_000
    yield "json not closed", "json", b"[" * 100_000
    yield "json quotes", "json", b'"\\' * 100_000
    yield "17 MiB of text", "msgpack", packb("spam" * (17 << 18))


ANSI = {
    "CSI": "\x1b[31mred\x1b[2J\x1b[6n",
    "OSC 8": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "OSC 52": "\x1b]52;c;cm0gLXJmIH4=\x07",
    "C1": "\x9b31m\x9d0;x\x9c\x90",
    "carriage return": "good\rbad\x08\x08\x7f",
    "bidi": "user\u202e\u2066nimda\u2069\u200f",
    "invisible": "a\u200bb\u00adc\ufeff\U000e0041\U000e0042",
    "closing markup": "[/INST] [/] [/bold]",
    "markup": "[bold red]x[/bold red] [link=http://evil.example]y[/link] :skull:",
    "spreadsheet": '=cmd|" /C calc"!A0',
}


def _text() -> Iterator[tuple[str, str, bytes]]:
    for name, text in ANSI.items():
        yield name, "msgpack", packb({text: [text, {"content": text}]})
    yield "type name", "msgpack", _ext(2, "\x1b[31mmod", "[/bold]\nCls", {"\x1b[2J": 1})
    yield "json form look-alike", "msgpack", packb({"$type": "os.x", "$bytes": "!", "$": {"$$": 1}})


def _bodies() -> Iterator[tuple[str, str | None, bytes | None]]:
    """Yield bodies with parts of a wrong type."""
    yield "not a map", "msgpack", packb([1, 2, 3])
    yield "not an object", "json", b'"text"'
    yield "empty map", "msgpack", packb({})
    yield "keys are not text", "msgpack", packb({1: 2, None: 3}, option=OPT_NON_STR_KEYS)
    for v in ("four", 99, 2**63, None, [4], float("nan")):
        yield f"v is {v}", "msgpack", packb({"v": v, "id": HOSTILE_ID, "channel_values": {"a": 1}})
    wrong = {
        **{"v": 4, "ts": ["x"], "id": {"a": 1}, "channel_values": ["a"]},
        **{"channel_versions": {"a": {"b": 1}, "c": None}, "updated_channels": "a"},
        **{"versions_seen": {"n": "x", "m": {"a": [1]}}, "pending_sends": {"a": 1}},
    }
    yield "parts of wrong kinds", "msgpack", packb(wrong)
    yield "no type", None, ordinary_body(HOSTILE_ID)
    yield "no body", "msgpack", None
    yield "neither", None, None
    yield "pickle", "pickle", b"\x80\x04N."


def _metadata(marker: Path) -> Iterator[tuple[str, bytes | None]]:
    yield "NaN", b'{"source": "loop", "step": NaN, "score": -Infinity}'
    yield "a list", b'["source", "loop"]'
    yield "cut off", b'{"source": "lo'
    yield "empty", b""
    yield "none", None
    yield "not UTF-8", b'{"source": "\xff"}'
    yield "wrong kinds", b'{"source": ["loop"], "step": "one", "parents": 3, "writes": [1]}'
    yield "step too large", b'{"source": "loop", "step": %s}' % (b"9" * 5000)
    yield "hostile source", _json({"source": ANSI["CSI"], "step": 1, ANSI["bidi"]: ANSI["markup"]})
    envelope = {"lc": 2, "type": "constructor", "id": ["os", "mkdir"], "args": [str(marker)]}
    yield "envelope", _json({"source": "loop", "step": 1, "writes": {"node": envelope}})
    yield "deep", b'{"writes": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"


def _ids() -> Iterator[tuple[str, str]]:
    yield from ANSI.items()
    yield "empty", ""
    yield "injection", "'; DROP TABLE checkpoints; --"
    yield "newlines", "first\nsecond\r\nthird\tcolumn"
    yield "percent", "100% %s _ \\ %"
    yield "dash", "--help"
    yield "path", "../../../../etc/passwd"
    yield "e-mail", "user@example.com@head~1"
    yield "NUL", "a\x00b"
    yield "long", "x" * 10_000
    yield "emoji", "👩‍❤️‍👨 スレッド"


def _names() -> Iterator[tuple[str, str]]:
    yield from ANSI.items()
    yield "empty", ""
    yield "dollar", "$type"
    yield "control look-alike", "branch:to:\x1b[2J"
    yield "newline", "a\nb"


def _ext(code: int, *parts: object) -> bytes:
    return packb(Ext(code, packb(list(parts))))


def _wrap(code: int, payload: bytes) -> bytes:
    return b"\xc9" + struct.pack(">Ib", len(payload), code) + payload


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
