"""Runs pickles safely: no name is imported, and no object is called or built.

The opcodes come from `pickletools`, which describes them. The objects that a pickle would
build are represented by nodes: lists, tuples, numbers and texts as they are, all others by the
classes below. If the pickle shares an object, the node is shared, so nodes may form cycles.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from io import BytesIO
from itertools import islice
from pickletools import opcodes
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from ckpt_backends.codec.msgpack import NDARRAY, ndarray
from ckpt_backends.codec.values import (
    CHANNELS,
    DELTA_SNAPSHOT,
    TUPLE,
    Cut,
    PastLimit,
    Tagged,
    Value,
    past_bytes,
)

if TYPE_CHECKING:
    from ckpt_backends.codec.values import Limits


# Converts pickled objects of known classes to the same values as the msgpack decoder.
#
# Everything here works on inert values. The recognised forms are those that `__reduce__` of the
# classes writes. Source: `Lib/datetime.py`, `Lib/copyreg.py`, `pydantic/main.py` and numpy's
# `_reconstruct`.


_LISTS = frozenset({"re.compile", "datetime.timedelta", "datetime.date", "datetime.timezone"})
"""Types with a list as payload even if they have only one argument. `pathlib` types have too."""
_SENDS = ("langgraph.types.Send", "langgraph.constants.Send")
_MAX_DIMENSIONS = 32
_MAX_LENGTH = 1 << 40


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything that a pickle passes to one object: arguments, states, items and entries."""

    args: list[Value]
    kwargs: Value = None
    states: list[Value] = field(default_factory=list)
    items: list[Value] = field(default_factory=list)
    entries: Value = None

    def named(self) -> dict[Value, Value]:
        """The parts that are not empty, by name."""
        found: dict[Value, Value] = {}
        if self.args:
            found["__args__"] = self.args
        if self.kwargs not in (None, {}):
            found["__kwargs__"] = self.kwargs
        if self.states:
            found["__state__"] = self.states[0] if len(self.states) == 1 else self.states
        if self.items:
            found["__items__"] = self.items
        if self.entries is not None:
            found["__entries__"] = self.entries
        return found

    def only_args(self) -> bool:
        return self.named().keys() <= {"__args__"}


def build(name: str, parts: Parts, room: int) -> Value:
    """The value of a call of `name`. `room` is the maximum number of array elements to create."""
    name = _ALIASES.get(name, name).replace("pathlib._local.", "pathlib.", 1)
    if name.startswith(("numpy.core.", "numpy._core.")):
        found = _numpy(name.rpartition(".")[2], parts, room)
    else:
        form = _FORMS.get(name)
        found = None if form is None else form(parts)
    return _plain(name, parts) if found is None else found


def _plain(name: str, parts: Parts) -> Tagged:
    """A `Tagged` object with its fields, arguments, items or entries as payload.

    If it has several of them, the payload is `Parts.named()`.
    """
    named = parts.named()
    if named.keys() <= {"__state__"} and len(parts.states) == 1:
        fields = _fields(parts.states[0])
        if fields is not None:
            if name in _SENDS and {"node", "arg"} <= fields.keys() and not fields.get("timeout"):
                return Tagged(name, [fields["node"], fields["arg"]])
            return Tagged(name, fields)
    if named.keys() <= {"__args__"}:
        if len(parts.args) == 1 and name not in _LISTS and not name.startswith("pathlib."):
            return Tagged(name, parts.args[0])
        return Tagged(name, parts.args)
    if len(named) == 1 and parts.items:
        return Tagged(name, parts.items)
    if len(named) == 1 and isinstance(parts.entries, dict):
        return Tagged(name, parts.entries)
    if named.keys() == {"__kwargs__"} and isinstance(parts.kwargs, dict):
        return Tagged(name, parts.kwargs)
    return Tagged(name, named)


def _fields(state: Value) -> dict[Value, Value] | None:
    """The fields that a state sets, for `__dict__`, slots and pydantic objects; otherwise None."""
    match state:
        case Tagged(type="builtins.tuple", payload=[None | dict() as own, dict() as slots]):
            state = {**(own or {}), **slots}
    if not isinstance(state, dict) or not all(isinstance(key, str) for key in state):
        return None
    inner = state.get("__dict__")
    if not isinstance(inner, dict) or not (
        "__pydantic_fields_set__" in state or "__fields_set__" in state
    ):
        return state
    extra = state.get("__pydantic_extra__")
    return {**inner, **(extra if isinstance(extra, dict) else {})}


def _datetime(parts: Parts) -> Value:
    match parts.args:
        case [bytes(data), *zone] if len(data) == 10 and len(zone) <= 1 and parts.only_args():
            at = _moment(data)
            if at is None:
                return None
            offset = _offset(zone[0]) if zone else None
            if zone and offset is None:
                return Tagged("datetime.datetime", [at.isoformat(), zone[0]])
            return Tagged("datetime.datetime", at.replace(tzinfo=offset).isoformat())
    return None


def _moment(data: bytes) -> datetime | None:
    """The datetime from its ten pickled bytes; the top bit of the month is the fold."""
    high, low, month, day, hour, minute, second = data[:7]
    microsecond = int.from_bytes(data[7:], "big")
    try:
        return datetime(  # noqa: DTZ001
            high << 8 | low, month & 127, day, hour, minute, second, microsecond, fold=month >> 7
        )
    except ValueError:
        return None


def _offset(zone: Value) -> timezone | None:
    """A fixed offset from UTC; None for other zones: a pickle does not contain their rules."""
    match zone:
        case Tagged(
            type="datetime.timezone",
            payload=[
                Tagged(
                    type="datetime.timedelta", payload=[int(days), int(seconds), int(microseconds)]
                ),
                *_,
            ],
        ):
            try:
                return timezone(timedelta(days, seconds, microseconds))
            except (ValueError, OverflowError):
                return None
    return None


def _date(parts: Parts) -> Value:
    match parts.args:
        case [bytes(data)] if len(data) == 4 and parts.only_args():
            return Tagged("datetime.date", [data[0] << 8 | data[1], data[2], data[3]])
    return None


def _time(parts: Parts) -> Value:
    match parts.args:
        case [bytes(data), *zone] if len(data) == 6 and len(zone) <= 1 and parts.only_args():
            return Tagged(
                "datetime.time",
                {
                    "hour": data[0] & 127,
                    "minute": data[1],
                    "second": data[2],
                    "microsecond": int.from_bytes(data[3:], "big"),
                    "tzinfo": zone[0] if zone else None,
                    "fold": data[0] >> 7,
                },
            )
    return None


def _uuid(parts: Parts) -> Value:
    match parts.states:
        case [{"int": int(number)}] if 0 <= number < 1 << 128 and not parts.args:
            return Tagged("uuid.UUID", f"{number:032x}")
    return None


def _encoded(parts: Parts) -> Value:
    """Bytes as pickle protocols 0 to 2 store them: a text to encode as Latin-1."""
    match parts.args:
        case [str(text), "latin1" | "latin-1"] if parts.only_args():
            try:
                return text.encode("latin-1")
            except UnicodeEncodeError:
                return None
    return None


def _bytes(parts: Parts) -> Value:
    return b"" if not parts.named() else None


def _bytearray(parts: Parts) -> Value:
    match parts.args:
        case [] if parts.only_args():
            return Tagged("builtins.bytearray", b"")
        case [bytes(data)] if parts.only_args():
            return Tagged("builtins.bytearray", data)
        case [str(), "latin-1"]:
            encoded = _encoded(parts)
            return None if encoded is None else Tagged("builtins.bytearray", encoded)
    return None


def _of_items(name: str) -> Callable[[Parts], Value]:
    """The form of a set or frozenset in old protocols: a call with a list."""

    def form(parts: Parts) -> Value:
        match parts.args:
            case [list(items)] if parts.only_args():
                return Tagged(name, items)
        return None

    return form


def _deque(parts: Parts) -> Value:
    match parts.args:
        case [] | [Tagged(type="builtins.tuple", payload=[])]:
            return Tagged("collections.deque", parts.items) if not parts.states else None
    return None


def _mapping(parts: Parts) -> Value:
    """An OrderedDict or defaultdict with entries only, as a dict (the same as in msgpack)."""
    factory = [] if not parts.args else parts.args[0]
    plain = factory == [] or (isinstance(factory, Tagged) and factory.type == "ckpt.global")
    if not plain or len(parts.args) > 1 or parts.states or parts.items:
        return None
    return {} if parts.entries is None else parts.entries


def _zone(parts: Parts) -> Value:
    match parts.args:
        case [str(key), *_] if parts.only_args():
            return Tagged("zoneinfo.ZoneInfo", key)
    return None


def _numpy(function: str, parts: Parts, room: int) -> Value:
    """An array from its state, or from a buffer (protocol 5)."""
    match function, parts.args, parts.states:
        case "_reconstruct", _, [
            Tagged(type="builtins.tuple", payload=[int(), shape, dtype, fortran, data])
        ]:
            return _array(dtype, shape, "F" if fortran is True else "C", data, room)
        case "_frombuffer", [data, dtype, shape, str(order)], []:
            return _array(dtype, shape, order, data, room)
        case "scalar", [dtype, bytes(data)], []:
            found = _array(dtype, Tagged(TUPLE, []), "C", data, room)
            return None if found is None else Tagged("numpy.generic", found.payload)
    return None


def _array(dtype: Value, shape: Value, order: str, data: Value, room: int) -> Tagged | None:
    kind, lengths = _dtype(dtype), _lengths(shape)
    if kind is None or lengths is None:
        return None
    if isinstance(data, Tagged) and data.type == "builtins.bytearray":
        data = data.payload
    if isinstance(data, bytes):
        return ndarray(kind, lengths, order, data, room)
    shown: list[Value] = list(lengths)
    return Tagged(NDARRAY, {"dtype": kind, "shape": shown, "order": order, "data": data})


def _lengths(shape: Value) -> list[int] | None:
    items = shape.payload if isinstance(shape, Tagged) and shape.type == TUPLE else None
    if not isinstance(items, list) or len(items) > _MAX_DIMENSIONS:
        return None
    lengths = [item for item in items if isinstance(item, int) and 0 <= item < _MAX_LENGTH]
    return lengths if len(lengths) == len(items) else None


def _dtype(dtype: Value) -> str | None:
    """The type of an array in numpy's notation, such as `<f8`."""
    match dtype:
        case Tagged(
            type="numpy.dtype",
            payload={
                "__args__": [str(kind), *_],
                "__state__": Tagged(type="builtins.tuple", payload=[int(), str(order), *_]),
            },
        ):
            return f"{order}{kind}"
    return None


_ALIASES: dict[str, str] = {
    "langgraph.checkpoint.serde.types._DeltaSnapshot": DELTA_SNAPSHOT,
    "re._compile": "re.compile",
    "zoneinfo.ZoneInfo._unpickle": "zoneinfo.ZoneInfo",
}
_FORMS: dict[str, Callable[[Parts], Any]] = {
    "_codecs.encode": _encoded,
    "builtins.bytearray": _bytearray,
    "builtins.bytes": _bytes,
    "builtins.frozenset": _of_items("builtins.frozenset"),
    "builtins.set": _of_items("builtins.set"),
    "collections.OrderedDict": _mapping,
    "collections.defaultdict": _mapping,
    "collections.deque": _deque,
    "datetime.date": _date,
    "datetime.datetime": _datetime,
    "datetime.time": _time,
    "uuid.UUID": _uuid,
    "zoneinfo.ZoneInfo": _zone,
}


Node: TypeAlias = Any
"""A list, a tuple, a number, text, bytes, a bytearray, None, or one of the classes below."""

OLD_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg"}
"""Python 2's names of modules, which protocols 0 to 2 use."""
OLD_NAMES = {"long": "int", "unicode": "str", "xrange": "range"}
"""Python 2's names in `__builtin__`."""


@dataclass(frozen=True, slots=True)
class Global:
    """The name of a class or function. The parts are not joined, to avoid copying long names."""

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class Persistent:
    """The id of an object that the application stored outside of the pickle."""

    id: Node


@dataclass(frozen=True, slots=True)
class Extension:
    """A class that the application registered under a number (`copyreg.add_extension`)."""

    code: int


@dataclass(slots=True, eq=False)
class Dict:
    """A dict as a list of pairs, because a node used as a key may be unhashable."""

    pairs: list[tuple[Node, Node]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Set:
    items: list[Node] = field(default_factory=list)
    frozen: bool = False


@dataclass(slots=True, eq=False)
class Object:
    """The result of calling `callee`, and everything that the pickle then adds to it."""

    callee: Node
    args: tuple[Node, ...]
    kwargs: Node = None
    states: list[Node] = field(default_factory=list)
    items: list[Node] = field(default_factory=list)
    pairs: list[tuple[Node, Node]] = field(default_factory=list)


class Machine:
    """Runs one pickle. `root` is the value, or its beginning if a limit ended the run."""

    def __init__(self, opcodes: int) -> None:
        self._opcodes = opcodes
        self._stack: list[Node] = []
        self._outer: list[list[Node]] = []
        """The stack below each mark."""
        self._memo: dict[int, Node] = {}

    def run(self, data: bytes) -> None:
        """Run a whole pickle. Raises `PastLimit`, and ValueError if it is damaged."""
        self.run_file(BytesIO(data), longest=len(data))

    def run_file(self, file: BinaryIO, *, longest: int) -> None:
        """Run a file with one pickle. Texts and bytes that are longer in it than `longest` bytes
        stay there, and become a `FilePosition`. Raises the errors of `run`.
        """
        remaining = _steps(file, longest)
        try:
            for step, argument in islice(remaining, self._opcodes):
                step(self, argument)
            if next(remaining, None) is not None:
                raise PastLimit(f"more than {self._opcodes} opcodes")
        except IndexError:
            raise ValueError("nothing on the stack") from None
        if self._outer or len(self._stack) != 1:
            raise ValueError(f"{'more than' if self._stack else 'not'} one value at the end")

    @property
    def root(self) -> Node:
        """The value at the bottom of the stack. Raises IndexError if there is none."""
        return (self._outer[0] if self._outer else self._stack)[0]

    def places(self) -> dict[int, int]:
        """By the `id` of each node in the memo, the number with which GET returns it."""
        return {id(node): place for place, node in self._memo.items()}

    def push(self, node: Node) -> None:
        self._stack.append(node)

    def _top(self) -> Node:
        return self._stack[-1]

    def _mark(self, _: object) -> None:
        self._outer.append(self._stack)
        self._stack = []

    def _marked(self) -> list[Node]:
        """Pop and return the nodes that were pushed since the last mark."""
        found = self._stack
        self._stack = self._outer.pop()
        return found

    def _pop(self, _: object) -> None:
        if self._stack:
            self._stack.pop()
        else:
            self._marked()

    def _pop_mark(self, _: object) -> None:
        self._marked()

    def _tuple(self, length: int) -> None:
        if len(self._stack) < length:
            raise IndexError("nothing on the stack")
        items = tuple(self._stack[-length:])
        del self._stack[-length:]
        self.push(items)

    def _append(self, items: list[Node]) -> None:
        match self._top():
            case list() as target:
                target.extend(items)
            case Object() as target:
                target.items.extend(items)
            case target:
                raise ValueError(f"APPENDS on a {_kind(target)}")

    def _add(self, items: list[Node]) -> None:
        match self._top():
            case Set() | Object() as target:
                target.items.extend(items)
            case target:
                raise ValueError(f"ADDITEMS on a {_kind(target)}")

    def _set_items(self, flat: list[Node]) -> None:
        match self._top():
            case Dict() | Object() as target:
                target.pairs.extend(_pairs(flat))
            case target:
                raise ValueError(f"SETITEMS on a {_kind(target)}")

    def _set_item(self, _: object) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._set_items([key, value])

    def _stack_global(self, _: object) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise ValueError("STACK_GLOBAL without two texts")
        self.push(Global(module, name))

    def _new(self, args: Node, kwargs: Node = None) -> None:
        """Replace the callee on top of the stack by an `Object` for its call."""
        callee = self._stack.pop()
        if not isinstance(args, tuple):
            raise ValueError("a call whose arguments are not a tuple")
        self.push(_unwrapped(callee, args, kwargs))

    def _new_with_names(self, _: object) -> None:
        kwargs, args = self._stack.pop(), self._stack.pop()
        self._new(args, kwargs)

    def _object(self, _: object) -> None:
        callee, *args = self._marked()
        self.push(Object(callee, tuple(args)))

    def _build(self, _: object) -> None:
        state = self._stack.pop()
        target = self._top()
        if not isinstance(target, Object):
            raise ValueError(f"BUILD on a {_kind(target)}")
        target.states.append(state)

    def _get(self, place: int) -> None:
        try:
            self._stack.append(self._memo[place])
        except KeyError:
            raise ValueError("GET of what was never PUT") from None

    def _put(self, place: int) -> None:
        self._memo[place] = self._stack[-1]

    def _refuse(self, _: object) -> None:
        raise ValueError("a buffer that is kept outside of the pickle")


def _unwrapped(callee: Node, args: tuple[Node, ...], kwargs: Node) -> Object:
    """The object of a call. For the helpers of `copyreg`, the callee is the class that they get."""
    match callee, args:
        case Global(module, "_reconstructor"), (cls, base, state) if _is_copyreg(module):
            name = base.name if isinstance(base, Global) else ""
            if name == "tuple" and isinstance(state, tuple):
                return Object(cls, state)
            return Object(cls, () if name == "object" else (state,))
        case Global(module, "__newobj__"), (cls, *rest) if _is_copyreg(module):
            return Object(cls, tuple(rest))
        case Global(module, "__newobj_ex__"), (cls, tuple(rest), names) if _is_copyreg(module):
            return Object(cls, rest, names)
    return Object(callee, args, kwargs)


def _is_copyreg(module: str) -> bool:
    return OLD_MODULES.get(module, module) == "copyreg"


def _named(argument: str) -> Global:
    module, _, name = argument.partition(" ")
    return Global(module, name)


def _pairs(flat: list[Node]) -> list[tuple[Node, Node]]:
    if len(flat) % 2:
        raise ValueError("a key without a value")
    return list(zip(flat[::2], flat[1::2], strict=True))


def _kind(node: Node) -> str:
    return type(node).__name__.lower()


Step: TypeAlias = Callable[[Machine, Any], None]

_LITERALS = (
    "INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING"
    " UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8"
)

STEPS: dict[str, Step] = {
    **dict.fromkeys(_LITERALS.split(), Machine.push),
    **dict.fromkeys(("PROTO", "FRAME", "STOP"), lambda _, __: None),
    "NONE": lambda m, _: m.push(None),
    "NEWTRUE": lambda m, _: m.push(True),
    "NEWFALSE": lambda m, _: m.push(False),
    "EMPTY_LIST": lambda m, _: m.push([]),
    "EMPTY_TUPLE": lambda m, _: m.push(()),
    "EMPTY_DICT": lambda m, _: m.push(Dict()),
    "EMPTY_SET": lambda m, _: m.push(Set()),
    "LIST": lambda m, _: m.push(m._marked()),
    "TUPLE": lambda m, _: m.push(tuple(m._marked())),
    "TUPLE1": lambda m, _: m._tuple(1),
    "TUPLE2": lambda m, _: m._tuple(2),
    "TUPLE3": lambda m, _: m._tuple(3),
    "DICT": lambda m, _: m.push(Dict(_pairs(m._marked()))),
    "FROZENSET": lambda m, _: m.push(Set(m._marked(), frozen=True)),
    "MARK": Machine._mark,
    "POP": Machine._pop,
    "POP_MARK": Machine._pop_mark,
    "DUP": lambda m, _: m.push(m._top()),
    "APPEND": lambda m, _: m._append([m._stack.pop()]),
    "APPENDS": lambda m, _: m._append(m._marked()),
    "ADDITEMS": lambda m, _: m._add(m._marked()),
    "SETITEM": Machine._set_item,
    "SETITEMS": lambda m, _: m._set_items(m._marked()),
    "GLOBAL": lambda m, argument: m.push(_named(argument)),
    "STACK_GLOBAL": Machine._stack_global,
    "REDUCE": lambda m, _: m._new(m._stack.pop()),
    "NEWOBJ": lambda m, _: m._new(m._stack.pop()),
    "NEWOBJ_EX": Machine._new_with_names,
    "OBJ": Machine._object,
    "INST": lambda m, argument: m.push(Object(_named(argument), tuple(m._marked()))),
    "BUILD": Machine._build,
    "MEMOIZE": lambda m, _: m._put(len(m._memo)),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), Machine._put),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), Machine._get),
    "PERSID": lambda m, argument: m.push(Persistent(argument)),
    "BINPERSID": lambda m, _: m.push(Persistent(m._stack.pop())),
    **dict.fromkeys(("EXT1", "EXT2", "EXT4"), lambda m, code: m.push(Extension(code))),
    **dict.fromkeys(("NEXT_BUFFER", "READONLY_BUFFER"), Machine._refuse),
}
"""The action of each opcode, by its name in `pickletools`."""


# Decodes pickles to inert values: converts the nodes of `machine` to a tree, within limits.
#
# A pickle may refer to the same object several times. Each reference is expanded again, within
# the limits. Special nodes:
#
# * `Tagged("ckpt.reference", LEVELS)`: a reference to a container around it, LEVELS levels up;
# * `Tagged("ckpt.global", "module.name")`: a class or function that is not called;
# * `ckpt.persistent` and `ckpt.extension`: persistent ids and extension codes;
# * `ckpt.call`: a call of something that is not a name.


_OPCODES_PER_NODE = 4
_SMALL_INT = 64
_MAX_ODD_KEYS = 2000
"""Maximum number of keys of one dict with equal hashes. More of them take quadratic time."""


def decode_pickle(data: bytes, limits: Limits) -> Value:
    """Decode a pickle; a `Cut` if it exceeds a limit. Raises ValueError if it is damaged."""
    past = past_bytes(len(data), limits)
    machine = Machine(_OPCODES_PER_NODE * limits.nodes)
    try:
        machine.run(data[: limits.value_bytes])
    except PastLimit as reached:
        past = past or str(reached)
    except ValueError as error:
        if not past:
            raise ValueError(f"not a pickle: {error}") from error
    try:
        root = machine.root
    except IndexError:
        raise ValueError("nothing readable within the limits") from None
    tree = _Tree(limits, limits.nodes)
    value = tree.value(root, 0)
    past = past or tree.past
    return Cut(value, len(data), past) if past else value


def pickle_body(data: bytes, limits: Limits) -> Value:
    """Decode a checkpoint body, cutting each large entry separately. Raises ValueError.

    The size of a cut entry is that of the whole body, because parts of a pickle have no size.
    """
    machine = Machine(4 * _OPCODES_PER_NODE * limits.nodes)
    try:
        machine.run(data)
    except PastLimit as past:
        raise ValueError(str(past)) from None
    except ValueError as error:
        raise ValueError(f"not a pickle: {error}") from error
    root = machine.root
    if not isinstance(root, Dict):
        raise ValueError("not a map, as a checkpoint is")

    def entries(pairs: Iterable[tuple[Node, Node]], nodes: int) -> Iterable[tuple[str, Value]]:
        left = nodes
        for key, node in pairs:
            if not isinstance(key, str):
                raise ValueError("a key that is not text")
            if key == CHANNELS and pairs is root.pairs and isinstance(node, Dict):
                yield key, dict(entries(node.pairs, 4 * limits.nodes))
                continue
            tree = _Tree(limits, min(limits.nodes, left))
            value = tree.value(node, 0)
            left = max(0, left - tree.used)
            yield key, Cut(value, len(data), tree.past) if tree.past else value

    body: dict[Value, Value] = {}
    body.update(entries(root.pairs, limits.nodes))
    return body


class _Tree:
    """Converts nodes to a tree. `past` names the limit that was exceeded, or is `''`."""

    def __init__(self, limits: Limits, nodes: int) -> None:
        self._limits = limits
        self._nodes = nodes
        self._bytes = limits.value_bytes
        self._inside: dict[int, int] = {}
        """By id(), the level of each container that is being converted."""
        self.past = ""
        self.used = 0

    def value(self, node: Node, depth: int) -> Value:
        """The tree of a node that is inside `depth` containers."""
        if self._full():
            return None
        self.used += 1
        if node is None or isinstance(node, bool | float):
            return node
        if isinstance(node, str):
            return node[: self._take(len(node))]
        if isinstance(node, bytes):
            return node[: self._take(len(node))]
        if isinstance(node, int):
            size = node.bit_length() // 8
            return node if size <= 8 or self._take(size) == size else None
        if depth >= self._limits.depth:
            self.past = self.past or f"nested deeper than {self._limits.depth} levels"
            return None
        if id(node) in self._inside:
            return Tagged("ckpt.reference", len(self._inside) - self._inside[id(node)])
        self._inside[id(node)] = len(self._inside)
        try:
            return self._container(node, depth + 1)
        finally:
            del self._inside[id(node)]

    def _container(self, node: Node, depth: int) -> Value:
        match node:
            case list():
                return self._items(node, depth)
            case tuple():
                return Tagged("builtins.tuple", self._items(node, depth + 1))
            case Dict():
                return self._dict(node.pairs, depth)
            case Set():
                name = "builtins.frozenset" if node.frozen else "builtins.set"
                return Tagged(name, self._items(node.items, depth + 1))
            case Object():
                return self._object(node, depth)
            case Global():
                return Tagged("ckpt.global", self._name(node))
            case bytearray():
                return Tagged("builtins.bytearray", bytes(node[: self._take(len(node))]))
            case Persistent():
                return Tagged("ckpt.persistent", self.value(node.id, depth))
            case Extension():
                return Tagged("ckpt.extension", node.code)
        raise ValueError(f"a {type(node).__name__} in a pickle")

    def _items(self, nodes: Iterable[Node], depth: int) -> list[Value]:
        made: list[Value] = []
        for node in nodes:
            if self._full():
                break
            made.append(self.value(node, depth))
        return made

    def _dict(self, nodes: Iterable[tuple[Node, Node]], depth: int) -> Value:
        """A dict, or a `Tagged` list of pairs if its keys cannot be used in a Python dict."""
        pairs: list[tuple[Value, Value]] = []
        odd, unfit = 0, False
        for key_node, node in nodes:
            if self._full():
                break
            key = self.value(key_node, depth)
            odd += isinstance(key, Tagged) or (
                isinstance(key, int) and key.bit_length() > _SMALL_INT
            )
            unfit = unfit or isinstance(key, list | dict)
            pairs.append((key, self.value(node, depth)))
        if unfit or odd > _MAX_ODD_KEYS:
            return Tagged("builtins.dict", [[key, value] for key, value in pairs])
        return dict(pairs)

    def _object(self, node: Object, depth: int) -> Value:
        self.used += 3  # the containers of its parts need as much memory as 3 plain values
        name = self._callee(node.callee)
        inner = depth + 1
        parts = Parts(
            args=self._items(node.args, inner),
            kwargs=None if node.kwargs is None else self.value(node.kwargs, inner),
            states=self._items(node.states, inner),
            items=self._items(node.items, inner),
            entries=self._dict(node.pairs, inner) if node.pairs else None,
        )
        if name is None:
            callee = self.value(node.callee, inner)
            return Tagged("ckpt.call", {"__callee__": callee, **parts.named()})
        return build(name, parts, max(0, self._nodes - self.used))

    def _callee(self, callee: Node) -> str | None:
        """The name of the called class, function or method (`getattr(cls, "name")`), or None."""
        match callee:
            case Global():
                return self._name(callee)
            case Object(Global(module, "getattr"), (Global() as cls, str(method))) if (
                OLD_MODULES.get(module, module) == "builtins"
            ):
                return f"{self._name(cls)}.{method[: self._take(len(method))]}"
        return None

    def _name(self, node: Global) -> str:
        module = OLD_MODULES.get(node.module, node.module)
        name = node.name[: self._take(len(node.name))]
        if node.module == "__builtin__":
            name = OLD_NAMES.get(name, name)
        return f"{module[: self._take(len(module))]}.{name}"

    def _full(self) -> bool:
        if self.used < self._nodes:
            return False
        self.past = self.past or f"more than {self._limits.nodes} nodes"
        return True

    def _take(self, size: int) -> int:
        """How many of `size` bytes are still allowed. If not all, the tree ends here."""
        allowed = min(size, self._bytes)
        self._bytes -= allowed
        if allowed < size:
            self.past = self.past or f"longer than {self._limits.value_bytes} bytes"
            self._nodes = self.used
        return allowed


# Parses the opcodes, and leaves long values in the file. So the memory for a file depends on the
# number of its values, not on their length.


_MOST_OPCODES = 20_000_000
"""Enough for about half a million checkpoints; their nodes take about 2 GB."""
_LONGEST = 256
"""Texts and bytes of a file up to this many stored bytes are read."""
_CHUNK = 1 << 20
_CONTINUATION = bytes(range(0x80, 0xC0))
"""The continuation bytes of UTF-8: those that do not begin a character."""


@dataclass(frozen=True, slots=True)
class FilePosition:
    """The position in the file of a long text or long bytes."""

    offset: int
    length: int
    """Stored bytes."""
    size: int
    """Length in characters of a text, in bytes of `bytes`."""
    is_text: bool

    def read(self, file: BinaryIO) -> bytes:
        """The stored bytes; UTF-8 for a text. Raises OSError, and ValueError if cut off."""
        file.seek(self.offset)
        found = file.read(self.length)
        if len(found) != self.length:
            raise ValueError("the file is shorter than it was")
        return found


def read_pickle_file(file: BinaryIO) -> Node:
    """The value of a pickle file, with long values as `FilePosition`. Raises ValueError."""
    machine = Machine(_MOST_OPCODES)
    try:
        machine.run_file(file, longest=_LONGEST)
        return machine.root
    except PastLimit as error:
        raise ValueError(str(error)) from error


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


_LONG_LITERALS: Mapping[str, tuple[int, Callable[[bytes], Any]]] = {
    "BINUNICODE": (4, _text),
    "BINUNICODE8": (8, _text),
    "BINBYTES": (4, bytes),
    "BINBYTES8": (8, bytes),
    "BYTEARRAY8": (8, bytearray),
}
"""The opcodes with a literal that may be long: the bytes of its length, and what makes it."""
_OPCODES = {
    one.code.encode("latin-1"): (
        *(STEPS[one.name], one.arg),
        *_LONG_LITERALS.get(one.name, (0, bytes)),
    )
    for one in opcodes
}
"""By its byte, the action of each opcode, its argument, and what `_LONG_LITERALS` says."""


def _steps(file: BinaryIO, longest: int) -> Iterator[tuple[Step, Any]]:
    """The opcodes of a file with their arguments. Raises ValueError."""
    end, code = file.seek(0, os.SEEK_END), b""
    file.seek(0)
    while code != b".":
        code = file.read(1)
        if not code:
            raise ValueError("pickle exhausted before seeing STOP")
        if code not in _OPCODES:
            raise ValueError(f"no opcode at byte {file.tell() - 1}")
        step, argument, width, made = _OPCODES[code]
        if not width:
            yield step, None if argument is None else argument.reader(file)
            continue
        length, offset = int.from_bytes(file.read(width), "little"), file.tell()
        if length > end - offset:
            raise ValueError(f"expected {length} bytes, but cut off after {end - offset}")
        if length <= longest:
            yield step, made(file.read(length))
            continue
        size = _characters(file, length) if made is _text else length
        yield step, FilePosition(offset, length, size, made is _text)
        file.seek(offset + length)
    if left := end - file.tell():
        raise ValueError(f"{left} bytes behind the end")


def _characters(file: BinaryIO, length: int) -> int:
    """The number of characters in the UTF-8 text that follows."""
    chunks = (file.read(min(_CHUNK, length - at)) for at in range(0, length, _CHUNK))
    return sum(len(chunk.translate(None, _CONTINUATION)) for chunk in chunks)
