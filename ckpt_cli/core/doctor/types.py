"""The types that stored values name, and what a saver would do with them."""

from __future__ import annotations

import json
import re
import tomllib
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Any, NamedTuple

from ormsgpack import OPT_NON_STR_KEYS, unpackb

from ckpt_backends.codec.cursor import (
    ARRAY,
    MAP,
    READ_EXT,
    STR,
    Cursor,
    depth_bound,
    read_header,
    skip,
)
from ckpt_backends.codec.json import BOM, check, integer
from ckpt_backends.codec.lossless import MERGED, packed_parts
from ckpt_backends.codec.pickle import Dict, Global, Machine, Node, Object, Set
from ckpt_backends.codec.values import CHANNELS, JSON_TYPES, WHOLE_LIMITS, PastLimit, past_bytes
from ckpt_backends.model import CheckpointKey, TypedBytes

_LONGEST = 200


class NamedIn(StrEnum):
    """How a value names a class or function."""

    MSGPACK = "msgpack"
    """An ext type that calls it."""
    METHOD = "msgpack-method"
    """An ext type that calls a method of it."""
    ARRAY = "msgpack-array"
    """An array of numpy; it has an ext type of its own."""
    JSON = "json"
    """An envelope with the key `lc`."""
    PICKLE = "pickle"


class TypeName(NamedTuple):
    """A class or function that a value names."""

    module: str
    """Empty, as is the name, if the value computes them while it is decoded. Savers never write
    such a value."""
    name: str
    form: NamedIn
    method: str = ""
    """The method that is called instead of the class; usually `''`."""
    called: bool = True
    """Whether it is called or given to a call. A pickle may also only mention it."""

    @property
    def is_computed(self) -> bool:
        """Whether the name is the result of another call, so it is not known before."""
        return not self.module

    @property
    def text(self) -> str:
        """The whole name, such as `app.models.Order`; a very long one is cut."""
        if self.is_computed:
            return "a computed name"
        text = ".".join(filter(None, (self.module, self.name, self.method)))
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


Names = frozenset[TypeName]
NONE: Names = frozenset()
_MOST_BYTES = 16 << 20
"""Maximum number of bytes whose names are remembered."""


class KnownNames:
    """The names in byte strings that were read before, such as messages of a growing list."""

    def __init__(self) -> None:
        self._known: dict[tuple[int | str, bytes], Names] = {}
        self._bytes = 0

    def get(self, kind: int | str, data: bytes) -> Names | None:
        """Return the names in `data`, or None; `kind` is its ext code or its type tag."""
        return self._known.get((kind, data))

    def put(self, kind: int | str, data: bytes, names: Names) -> None:
        """Remember the names in `data`."""
        self._bytes += len(data)
        if self._bytes > _MOST_BYTES:
            self._known.clear()
            self._bytes = len(data)
        self._known[kind, data] = names


KNOWN = KnownNames()
"""What this process remembers."""


def check_length(data: bytes) -> None:
    """Raise `PastLimit` for a value that is too long to be taken apart."""
    if reason := past_bytes(len(data), WHOLE_LIMITS):
        raise PastLimit(reason)


def type_names(typed: TypedBytes) -> Names:
    """Return what a value names. Raises `PastLimit`, and ValueError if it cannot be read."""
    _check(typed)
    found = KNOWN.get(typed.type, typed.data)
    if found is None:
        found = _read(typed)
        if found:
            KNOWN.put(typed.type, typed.data, found)
    return found


def body_names(body: TypedBytes) -> Names:
    """Return what a whole checkpoint body names; much faster than `names_by_channel`.

    Raises the errors of `type_names`.
    """
    _check(body)
    return _read(body)  # Not remembered: no two bodies are equal.


def gather_names(data: bytes) -> Names:
    """Return what msgpack names, while bodies are decoded; raises the errors of `type_names`."""

    return msgpack_names(data)


def names_by_channel(body: TypedBytes) -> Mapping[str | None, Names]:
    """Return what each channel value of a checkpoint body names, and under None what the rest does.

    Channels without names are left out. Raises the errors of `type_names`.
    """
    _check(body)
    if body.type == "msgpack":
        if names_nothing(body.data):
            return {}
        parts = ((name, TypedBytes("msgpack", part)) for name, part in body_parts(body.data))
        return _gathered((name, type_names(part)) for name, part in parts)
    if body.type in JSON_TYPES:
        return _gathered(json_body_names(body.data))
    if body.type == "pickle":
        return _gathered(pickle_body_names(body.data))
    return _gathered([(None, type_names(body))])


def _check(typed: TypedBytes) -> None:
    if typed.problem:
        raise ValueError(typed.problem)


def _read(typed: TypedBytes) -> Names:
    match typed.type:
        case "msgpack":
            return msgpack_names(typed.data)
        case "json" | "redis-json":
            return json_names(typed.data)
        case "pickle":
            return pickle_names(typed.data)
        case "bson":
            from ckpt_backends.codec.bson import binaries

            # Up to langgraph-checkpoint-mongodb 0.2.1, a leaf is a JSON text without a tag.
            leaves = (TypedBytes(tag or "json", data) for _, tag, data in binaries(typed.data))
            return _joined(type_names(leaf) for leaf in leaves)
        case one if one == MERGED:
            return _joined(type_names(part) for part in packed_parts(typed.data))
    return NONE


def _joined(found: Iterable[Names]) -> Names:
    return NONE.union(*found)


def _gathered(found: Iterable[tuple[str | None, Names]]) -> dict[str | None, Names]:
    gathered: dict[str | None, Names] = {}
    for channel, names in found:
        if names:
            gathered[channel] = gathered.get(channel, NONE) | names
    return gathered


@cache
def dangerous_names() -> frozenset[str]:
    """Return the names of which it is certain that calling them does harm."""
    text = files("ckpt_cli.data").joinpath("dangerous_names.toml").read_text("utf-8")
    modules = chain.from_iterable(group.items() for group in tomllib.loads(text).values())
    return frozenset(f"{module}.{name}" for module, names in modules for name in names.split())


_OLD = {"__builtin__": "builtins", "cPickle": "pickle", "pathlib._local": "pathlib"}
_WAYS_OUT = frozenset(
    {
        *("__bases__", "__builtins__", "__closure__", "__code__", "__func__", "__getattribute__"),
        *("__globals__", "__import__", "__loader__", "__mro__", "__self__", "__spec__"),
        "__subclasses__",
    }
)
"""Attributes that lead from a class to the functions behind it."""
_MODULES = frozenset({"_os", "_sys", "os", "subprocess", "sys"})


def is_dangerous(named: TypeName) -> bool:
    """Return whether a saver that decodes the value would certainly do harm."""
    if not named.called:
        return False
    if named.is_computed:
        return True
    text = f"{_OLD.get(named.module, named.module)}.{named.name}"
    known = dangerous_names()
    if text in known or (named.method and f"{text}.{named.method}" in known):
        return True
    # The name of a nested class goes through classes only, not through imported modules.
    path = [*named.name.split("."), *filter(None, [named.method])]
    return not (_WAYS_OUT.isdisjoint(path) and _MODULES.isdisjoint(path[:-1]))


# What `LANGGRAPH_STRICT_MSGPACK` admits, and how to admit more.
#
# With this variable, LangGraph's serializer calls only listed classes when it decodes msgpack. Of
# any other class it returns what the object was made of: a dict, a list or a text. JSON and
# pickles are not affected: other options guard them.
#
# Source: `SAFE_MSGPACK_TYPES` and `SAFE_MSGPACK_METHODS` in
# `langgraph/checkpoint/serde/_msgpack.py`, langgraph-checkpoint 4.3.2. `SAFE_MSGPACK_METHODS`
# holds even without the variable. A compiled graph adds the types of its state schema, as far as
# they can be seen there: `build_serde_allowlist` in `langgraph/_internal/_serde.py`, langgraph
# 1.2.22.


VARIABLE = "LANGGRAPH_STRICT_MSGPACK"
_ON = frozenset({"1", "true", "yes"})

_PATHS = "Path PosixPath WindowsPath"
_TYPES: Mapping[str, str] = {
    "builtins": "frozenset set",
    "collections": "deque",
    "datetime": "date datetime time timedelta timezone",
    "decimal": "Decimal",
    "ipaddress": "IPv4Address IPv4Interface IPv4Network IPv6Address IPv6Interface IPv6Network",
    "langchain_core.documents.base": "Document",
    "langchain_core.messages.ai": "AIMessage AIMessageChunk",
    "langchain_core.messages.base": "BaseMessage BaseMessageChunk",
    "langchain_core.messages.chat": "ChatMessage ChatMessageChunk",
    "langchain_core.messages.function": "FunctionMessage FunctionMessageChunk",
    "langchain_core.messages.human": "HumanMessage HumanMessageChunk",
    "langchain_core.messages.modifier": "RemoveMessage",
    "langchain_core.messages.system": "SystemMessage SystemMessageChunk",
    "langchain_core.messages.tool": "ToolMessage ToolMessageChunk",
    "langgraph.store.base": "GetOp Item",
    "langgraph.types": "Command Interrupt Overwrite PregelTask Send StateSnapshot TimeoutPolicy",
    "pathlib": _PATHS,
    "pathlib._local": _PATHS,
    "re": "compile",
    "uuid": "UUID",
    "zoneinfo": "ZoneInfo",
}
ADMITTED = frozenset((module, name) for module, names in _TYPES.items() for name in names.split())
"""The classes that are always admitted, as pairs of module and name."""
ADMITTED_METHODS = frozenset({("datetime", "datetime", "fromisoformat")})
"""The methods that are admitted. No option admits another one."""


def is_blocked(named: TypeName) -> bool:
    """Return whether a saver in strict mode returns what an object was made of instead of it."""
    if named.form is NamedIn.METHOD:
        return (named.module, named.name, named.method) not in ADMITTED_METHODS
    return named.form is NamedIn.MSGPACK and (named.module, named.name) not in ADMITTED


def can_be_allowed(named: TypeName) -> bool:
    """Return whether a class can be put on the list of allowed modules without harm."""
    return named.form is NamedIn.MSGPACK and not is_dangerous(named)


def is_strict(environment: Mapping[str, str]) -> bool:
    """Return whether the environment turns strict mode on."""
    return environment.get(VARIABLE, "").lower() in _ON


@dataclass(frozen=True, slots=True)
class TypeUse:
    """A class or function that some values name in the same form."""

    named: TypeName
    count: int
    """Number of stored values that name it."""
    key: CheckpointKey
    """The oldest checkpoint whose state, writes or metadata name it."""
    channel: str | None
    """None for metadata, and for what a checkpoint holds besides its channels."""
    task_id: str | None = None
    """The task that wrote the value there; None if it belongs to a checkpoint."""
    ref: str | None = None
    """The short form of the checkpoint id, if it was looked up."""

    def joined(self, other: TypeUse) -> TypeUse:
        """Return both together."""
        first = min(self, other, key=lambda one: one.key.checkpoint_id)
        named = self.named if self.named.called else other.named
        return replace(first, named=named, count=self.count + other.count)


class TypeUses:
    """What many values name."""

    def __init__(self) -> None:
        self._uses: dict[tuple[str, str, str, str], TypeUse] = {}

    def add(self, use: TypeUse) -> None:
        """Add what was found elsewhere."""
        named = use.named
        key = (named.module, named.name, named.form, named.method)
        known = self._uses.get(key)
        self._uses[key] = use if known is None else known.joined(use)

    def listed(self) -> list[TypeUse]:
        """Return the names that are blocked first, then by name."""
        return sorted(self._uses.values(), key=lambda one: (not is_blocked(one.named), one.named))

    def to_allow(self) -> list[tuple[str, str]]:
        """Return what `allowed_msgpack_modules` needs so that strict mode blocks no class.

        Dangerous names are left out.
        """
        named = (one.named for one in self._uses.values())
        chosen = (one for one in named if is_blocked(one) and can_be_allowed(one))
        return sorted({(one.module, one.name) for one in chosen})


_OF_PYDANTIC = ("construct", "model_construct")
_DECODER = json.JSONDecoder(parse_int=integer)


def json_names(data: bytes) -> Names:
    """Return what a JSON text names. Raises `PastLimit`, and ValueError if it is not JSON."""
    return NONE if _names_nothing(data) else frozenset(_names(_parsed(data)))


def json_body_names(data: bytes) -> Iterator[tuple[str | None, Names]]:
    """Yield what each channel of a checkpoint body names, and all other entries under None.

    Raises the errors of `json_names`.
    """
    if _names_nothing(data):
        return
    body = _parsed(data)
    values = body.pop(CHANNELS, None) if isinstance(body, dict) else None
    if isinstance(values, dict):
        for channel, value in values.items():
            yield channel, frozenset(_names(value))
    yield None, frozenset(_names([body, None if isinstance(values, dict) else values]))


def _names_nothing(data: bytes) -> bool:
    """Return whether no key can be `lc`, not even one that is written with escapes."""
    return b'"lc"' not in data and b"\\u" not in data


def _parsed(data: bytes) -> Any:
    check_length(data)
    text = data.removeprefix(BOM).decode("utf-8", "surrogatepass")
    check(text, WHOLE_LIMITS)
    return _DECODER.decode(text)


def _names(root: Any) -> Iterator[TypeName]:
    todo = [root]
    while todo:
        item = todo.pop()
        if isinstance(item, list):
            todo += item
        elif isinstance(item, dict):
            todo += item.values()
            if item.get("lc") in (1, 2) and item.get("type") == "constructor":
                yield from _constructor(item)


def _constructor(envelope: dict[str, Any]) -> Iterator[TypeName]:
    path, method = envelope.get("id"), envelope.get("method")
    # LangGraph.js names its own types with one word.
    if (
        isinstance(path, list)
        and len(path) > 1
        and all(one and isinstance(one, str) for one in path)
    ):
        module, name = ".".join(path[:-1]), path[-1]
        yield TypeName(module, name, NamedIn.JSON, method if isinstance(method, str) else "")
        # Before release 3, a list held the methods to try; None stood for the class itself.
        for one in method if isinstance(method, list) else ():
            if isinstance(one, str) and one not in _OF_PYDANTIC:
                yield TypeName(module, name, NamedIn.JSON, one)


# Find the names in msgpack: the ext types of LangGraph's serializer.
#
# Source: `_create_msgpack_ext_hook` in `langgraph/checkpoint/serde/jsonplus.py`.


_METHOD, _NUMPY, _SNAPSHOT = 3, 6, 7
_EXT = re.compile(
    rb"[\xd4-\xd8][\x00-\x07]|\xc7.[\x00-\x07]|\xc8..[\x00-\x07]|\xc9....[\x00-\x07]", re.DOTALL
)
"""Matches the header of each ext type that is read, and now and then other bytes."""
_NOT_EXT = bytes({*range(256)} - {0xC7, 0xC8, 0xC9, *range(0xD4, 0xD9)})
_ARRAY_NAME = frozenset({TypeName("numpy", "ndarray", NamedIn.ARRAY)})
_COMPUTED = frozenset({TypeName("", "", NamedIn.MSGPACK)})
_RESULT = object()
"""Stands for what a saver gets from an inner ext type."""


def names_nothing(data: bytes) -> bool:
    """Return whether msgpack certainly names nothing, because it has no ext type."""
    # `translate` is ten times faster than the pattern, and most texts have none of these bytes.
    return not data.translate(None, _NOT_EXT) or _EXT.search(data) is None


def msgpack_names(data: bytes) -> Names:
    """Return what a value names. Raises `PastLimit`, and ValueError if it is not msgpack.

    A saver decodes damaged msgpack up to the damage, so what is named before it counts.
    """
    if names_nothing(data):
        return NONE
    check_length(data)
    if len(data) > WHOLE_LIMITS.nodes:
        skip(data, 0, WHOLE_LIMITS)
    reader = _ExtNames()
    try:
        unpackb(data, ext_hook=reader.on_ext, option=OPT_NON_STR_KEYS)
    except ValueError:
        if not reader.names:
            raise
    return frozenset(reader.names)


def body_parts(data: bytes) -> Iterator[tuple[str | None, bytes]]:
    """Yield the value of each channel in a checkpoint body, and all other entries as None.

    Raises ValueError if the body is not a map or is cut off.
    """
    cursor = Cursor(data)
    for _ in range(cursor.enter(MAP, "a checkpoint has to be a map")):
        if cursor.text("surrogateescape") != CHANNELS or cursor.kind() != MAP:
            yield None, cursor.take()
            continue
        for _ in range(cursor.enter(MAP)):
            channel = cursor.text("surrogateescape")
            yield channel, cursor.take()


class _ExtNames:
    """Gathers what the ext types of one value name."""

    def __init__(self, *, inside: bool = False) -> None:
        self.names: set[TypeName] = set()
        self._inside = inside

    def on_ext(self, code: int, data: bytes) -> object:
        if code in READ_EXT:
            found = KNOWN.get(code, data)
            if found is None:
                found = self._read(code, data)
                KNOWN.put(code, data, found)
            self.names |= found
        return _RESULT

    def _read(self, code: int, data: bytes) -> Names:
        names_more = not names_nothing(data)
        if code == _NUMPY and not names_more:
            return _ARRAY_NAME
        # Most ext types are flat: their name stands at the start, and nothing else is named.
        if code not in (_METHOD, _SNAPSHOT) and not names_more and (named := _first_two(data)):
            return frozenset({TypeName(*named, NamedIn.MSGPACK)})
        if not self._inside and depth_bound(data) > WHOLE_LIMITS.depth:
            skip(data, 0, WHOLE_LIMITS)  # deep nesting could overflow the stack
        inner = _ExtNames(inside=True)
        try:
            parts = unpackb(data, ext_hook=inner.on_ext, option=OPT_NON_STR_KEYS)
        except ValueError:
            return frozenset(inner.names)
        return frozenset(inner.names) | _named(code, parts)


def _named(code: int, parts: Any) -> Names:
    """Return what an ext type with this payload names. Savers take its parts by their index."""
    if code == _SNAPSHOT:
        return NONE
    if code == _NUMPY:
        return _ARRAY_NAME
    if parts is _RESULT:
        return _COMPUTED
    try:
        module, name = parts[0], parts[1]
        method = parts[3] if code == _METHOD else ""
    except (LookupError, TypeError):
        return NONE
    if _RESULT in (module, name, method):
        return _COMPUTED
    if not (module and all(isinstance(one, str) for one in (module, name, method))):
        return NONE
    form = NamedIn.METHOD if code == _METHOD else NamedIn.MSGPACK
    return frozenset({TypeName(module, name, form, method)})


def _first_two(data: bytes) -> tuple[str, str] | None:
    """Return the first two items of a list if they are texts."""
    try:
        kind, pos, count = read_header(data, 0)
        if kind != ARRAY or count < 3:
            return None
        texts = []
        for _ in range(2):
            kind, pos, length = read_header(data, pos)
            if kind != STR or pos + length > len(data):
                return None
            texts.append(data[pos : pos + length].decode())
            pos += length
    except (IndexError, UnicodeDecodeError):
        return None
    module, name = texts
    return (module, name) if module else None


# Find the names in pickles: what they import, and what of it they call.
#
# The machine that runs a pickle here builds placeholders. It sees all calls, also those whose
# result the pickle throws away.


_OPCODES = 16 * WHOLE_LIMITS.nodes
_BAD = (ValueError, IndexError, KeyError, AttributeError, TypeError)
"""The exceptions that damaged pickles cause, including those of `pickletools`."""
_PROTO, _FIRST_OF_PYTHON_3 = b"\x80", b"\x03"


def pickle_names(data: bytes) -> Names:
    """Return what a pickle names. Raises `PastLimit`, and ValueError if it cannot be read at all.

    A saver runs a damaged pickle up to the damage, so what is named before it counts.
    """
    recorder = _run(data)
    return recorder.names(recorder.nodes)


def pickle_body_names(data: bytes) -> Iterator[tuple[str | None, Names]]:
    """Yield what each channel of a checkpoint body names, and all other names under None.

    Raises the errors of `pickle_names`.
    """
    recorder = _run(data)
    placed: Names = frozenset()
    for channel, node in _channels(recorder):
        names = recorder.names(_within(node))
        placed |= names
        yield channel, names
    yield None, recorder.names(recorder.nodes) - placed


class _Recorder(Machine):
    """Remembers every name and every call of a pickle, also of what it drops later."""

    def __init__(self, *, is_old: bool) -> None:
        super().__init__(_OPCODES)
        self.nodes: list[Node] = []
        self._is_old = is_old

    def push(self, node: Node) -> None:
        if isinstance(node, Global | Object):
            self.nodes.append(node)
        super().push(node)

    def names(self, nodes: Iterable[Node]) -> Names:
        """Return what some nodes name; a class that is called and mentioned appears once."""
        found: dict[tuple[str, str, str], TypeName] = {}
        seen: set[int] = set()
        for node in nodes:
            for named, method, called in _uses(node, seen):
                one = self._name(named, method, called=called)
                if called or (one.module, one.name, method) not in found:
                    found[one.module, one.name, method] = one
        return frozenset(found.values())

    def _name(self, named: Global, method: str, *, called: bool) -> TypeName:
        module, name = named.module, named.name
        if self._is_old:
            module, name = NAME_MAPPING.get((module, name), (module, name))
            module = IMPORT_MAPPING.get(module, module)
        return TypeName(module, name, NamedIn.PICKLE, method, called)


def _run(data: bytes) -> _Recorder:
    check_length(data)
    is_old = data[:1] != _PROTO or data[1:2] < _FIRST_OF_PYTHON_3  # nothing may follow
    recorder = _Recorder(is_old=is_old)
    try:
        recorder.run(data)
    except _BAD as error:
        if not recorder.nodes:
            raise ValueError("not a pickle") from error
    return recorder


def _uses(node: Node, seen: set[int]) -> Iterator[tuple[Global, str, bool]]:
    """Yield the names in one node, each with its method and whether it is called.

    What is passed to a call counts as called, as in `functools.partial`. `seen` are the containers
    that were looked into.
    """
    match node:
        case Global():
            yield node, "", False
        case Object(callee, args, kwargs):
            match callee:
                case Global():
                    yield callee, "", True
                case Object(Global(_, "getattr"), (Global() as owner, str(method))):
                    yield owner, method, True
            for one in _flat([args, kwargs], seen):
                if isinstance(one, Global):
                    yield one, "", True


def _flat(todo: list[Node], seen: set[int]) -> Iterator[Node]:
    """Yield what is in some containers, but not what is in the objects among it."""
    while todo:
        node = todo.pop()
        if isinstance(node, list | tuple | Dict | Set):
            if id(node) not in seen:
                seen.add(id(node))
                todo += _members(node)
        else:
            yield node


def _within(root: Node) -> Iterator[Node]:
    """Yield all names and objects in a value."""
    seen: set[int] = set()
    todo = [root]
    while todo:
        for node in _flat([todo.pop()], seen):
            if isinstance(node, Global):
                yield node
            elif isinstance(node, Object) and id(node) not in seen:
                seen.add(id(node))
                yield node
                parts = [node.args, node.kwargs, node.states, node.items, node.pairs]
                todo += [node.callee, *parts]


def _members(node: Node) -> Iterable[Node]:
    match node:
        case Dict():
            return chain.from_iterable(node.pairs)
        case Set():
            return node.items
    found: Iterable[Node] = node
    return found


def _channels(recorder: _Recorder) -> Iterator[tuple[str, Node]]:
    """Yield the channel values of a checkpoint body; nothing if it is no body."""
    with suppress(IndexError):
        for key, values in _pairs(recorder.root):
            if key == CHANNELS:
                yield from _pairs(values)


def _pairs(node: Node) -> Iterator[tuple[str, Node]]:
    if isinstance(node, Dict):
        yield from ((key, value) for key, value in node.pairs if isinstance(key, str))
