"""Converts pickles to msgpack of LangGraph's serializer, without calling anything.

Each object becomes the ext type from which `JsonPlusSerializer` makes an equal object. msgpack has
neither tuples nor bytearrays: these become calls of `tuple` and `bytearray`, as if they were
objects of the application. What would come back as something else is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ckpt_backends.codec.cursor import READ_EXT
from ckpt_backends.codec.lossless import Ext, pack_lossless
from ckpt_backends.codec.pickle import (
    OLD_MODULES,
    OLD_NAMES,
    Dict,
    Global,
    Machine,
    Node,
    Object,
    Set,
)
from ckpt_backends.codec.pickle_classes import Parts, build
from ckpt_backends.codec.values import CHANNELS, TUPLE, PastLimit, Tagged, Value
from ckpt_backends.transfer.form import NoEqualForm
from ckpt_backends.transfer.official_types import (
    ARGUMENTS,
    DATETIME,
    DOCUMENT,
    FIELDS,
    MESSAGES,
    ONE_ARGUMENT,
    SENDS,
    TIMEZONE,
    TypeName,
    fits,
)

_ONE, _ARGUMENTS, _FIELDS, _METHOD, _PYDANTIC_1, _PYDANTIC_2, _NUMPY, _SNAPSHOT = READ_EXT
_OPCODES = 1 << 40
_NODES_PER_BYTE = 8
"""A pickle may refer to the same object often; each reference becomes a copy."""
_FEWEST_NODES = 1_000_000
_TIMES_AS_LONG, _FEWEST_BYTES = 4, 16 << 20
"""Texts and bytes, too, are copied for each reference."""
_DEEPEST = 200
_BYTEARRAY = "builtins", "bytearray"
_DELTA = "langgraph.checkpoint.serde.types", "_DeltaSnapshot"
_STANDARD = ONE_ARGUMENT | ARGUMENTS | {DATETIME, ("datetime", "time"), ("re", "_compile")}


def msgpack_of_pickle(data: bytes) -> bytes:
    """The msgpack of a pickled value. Raises `NoEqualForm`."""
    with _reasons():
        return pack_lossless(_Converter(data).value(_root(data)))


def open_pickle(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The fields of a pickled checkpoint but its values, and its values, each as msgpack.

    Raises `NoEqualForm`, with the name of the channel.
    """
    with _reasons():
        root = _root(data)
        if not isinstance(root, Dict):
            raise NoEqualForm("is not a dict")
        converter = _Converter(data)
        fields: dict[str, Any] = {}
        values: dict[str, bytes] = {}
        for name, node in _texts(root):
            if name != CHANNELS or not isinstance(node, Dict):
                fields[name] = converter.value(node)
                continue
            for channel, inner in _texts(node):
                try:
                    values[channel] = pack_lossless(converter.value(inner))
                except NoEqualForm as problem:
                    raise NoEqualForm(f"channel '{channel}' {problem}") from None
        return fields, values


@contextmanager
def _reasons() -> Iterator[None]:
    try:
        yield
    except NoEqualForm:
        raise
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, PastLimit) as error:
        raise NoEqualForm(f"cannot become msgpack: {error}") from None


def _root(data: bytes) -> Node:
    machine = Machine(_OPCODES)
    machine.run(data)
    return machine.root


def _texts(node: Dict) -> Iterator[tuple[str, Node]]:
    for key, value in node.pairs:
        if not isinstance(key, str):
            raise NoEqualForm("has a key that is not text")
        yield key, value


class _Converter:
    """Converts the nodes of one pickle to values with an `Ext` for each object."""

    def __init__(self, data: bytes) -> None:
        self._left = max(_FEWEST_NODES, _NODES_PER_BYTE * len(data))
        self._bytes_left = max(_FEWEST_BYTES, _TIMES_AS_LONG * len(data))
        self._depth = 0
        self._kinds: Mapping[type, Callable[[Any], Any]] = {
            list: self._items,
            tuple: lambda items: _call(_ONE, ("builtins", "tuple"), self._items(items)),
            bytearray: lambda data: _call(_ONE, _BYTEARRAY, bytes(data)),
            Dict: self._dict,
            Set: self._set,
            Object: self._object,
        }

    def value(self, node: Node) -> Any:
        self._left -= 1
        if self._left < 0:
            raise NoEqualForm("refers to the same objects too often")
        if isinstance(node, str | bytes):
            self._bytes_left -= len(node)
            if self._bytes_left < 0:
                raise NoEqualForm("refers to the same texts too often")
            return node
        if node is None or isinstance(node, bool | int | float):
            return node
        convert = self._kinds.get(type(node))
        if convert is None:
            words = "a class or function" if isinstance(node, Global) else "an unknown object"
            raise NoEqualForm(f"holds {words}")
        if self._depth >= _DEEPEST:
            raise NoEqualForm(f"is nested deeper than {_DEEPEST} levels, or contains itself")
        self._depth += 1
        try:
            return convert(node)
        finally:
            self._depth -= 1

    def _items(self, nodes: Iterable[Node]) -> list[Any]:
        return [self.value(node) for node in nodes]

    def _dict(self, node: Dict) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for key, value in node.pairs:
            if not _is_plain(key):
                raise NoEqualForm("holds a dict with keys that msgpack does not have")
            made[key] = self.value(value)
        return made

    def _set(self, node: Set) -> Ext:
        return self._collection("frozenset" if node.frozen else "set", node.items)

    def _collection(self, name: str, nodes: list[Node]) -> Ext:
        return _call(_ONE, ("builtins", name), self._items(nodes))

    def _object(self, node: Object) -> Any:
        if isinstance(node.callee, Object):
            # `getattr(cls, "name")`: only that of `ZoneInfo` is known.
            match node.callee:
                case Object(Global(), (Global("zoneinfo", "ZoneInfo"), "_unpickle")):
                    return _call(_ONE, ("zoneinfo", "ZoneInfo"), node.args[0])
            raise NoEqualForm("holds an object that a method made")
        named = isinstance(node.kwargs, Dict) and node.kwargs.pairs
        if named or not isinstance(node.callee, Global):
            raise NoEqualForm("holds an object of an unknown form")
        name = _name(node.callee)
        if name == _DELTA:
            return Ext(_SNAPSHOT, pack_lossless(self.value(node.args[0])))
        if name in _STANDARD:
            return _standard(name, node)
        if name == _BYTEARRAY and node.args and isinstance(node.args[0], bytes):
            return _call(_ONE, name, node.args[0])
        if name == ("collections", "deque"):
            return self._deque(node)
        if node.states and not node.args and not node.items and not node.pairs:
            return self._with_state(name, node.states)
        return self._called(name, node)

    def _deque(self, node: Object) -> Ext:
        items = self._items(node.items)
        match node.args:
            case () | ((),):
                return _call(_ONE, ("collections", "deque"), items)
            case ((), int(most)):
                return _call(_ARGUMENTS, ("collections", "deque"), [items, most])
        raise NoEqualForm("holds a deque of an unknown form")

    def _with_state(self, name: TypeName, states: list[Node]) -> Ext:
        """The ext type of an object whose fields a state sets."""
        state = states[0] if len(states) == 1 else None
        match state:
            case (None | Dict() as own, Dict() as slots):
                state = Dict([*(own.pairs if own else []), *slots.pairs])
            case list() if name in FIELDS and len(state) == len(FIELDS[name]):
                state = Dict(list(zip(FIELDS[name], state, strict=True)))
        if not isinstance(state, Dict):
            raise NoEqualForm(f"holds an object of {_words(name)} of an unknown form")
        fields = dict(_texts(state))
        for mark, code in (
            ("__pydantic_fields_set__", _PYDANTIC_2),
            ("__fields_set__", _PYDANTIC_1),
        ):
            if mark in fields:
                return self._pydantic(name, code, fields)
        made = {key: self.value(one) for key, one in fields.items()}
        if name in SENDS and {*made} <= {"node", "arg", "timeout"}:
            timeout = [] if made.get("timeout") is None else [made["timeout"]]
            return _call(_ARGUMENTS, name, [made["node"], made["arg"], *timeout])
        if name in FIELDS and fits(name, made):
            return _call(_FIELDS, name, made)
        raise NoEqualForm(
            f"holds an object of {_words(name)}, which LangGraph's serializer may not give back"
        )

    def _pydantic(self, name: TypeName, code: int, fields: dict[str, Node]) -> Ext:
        inner, extra = fields.get("__dict__"), fields.get("__pydantic_extra__")
        private = fields.get("__pydantic_private__", fields.get("__private_attribute_values__"))
        if not isinstance(inner, Dict) or not isinstance(extra, Dict | None):
            raise NoEqualForm(f"holds an object of {_words(name)} of an unknown form")
        if private is not None and (not isinstance(private, Dict) or private.pairs):
            raise NoEqualForm(f"holds private fields of a {_words(name)}, which would be lost")
        made = self._dict(Dict([*inner.pairs, *(extra.pairs if extra else [])]))
        if (name in MESSAGES or name == DOCUMENT) and not fits(name, made):
            raise NoEqualForm(f"holds a {_words(name)} with unusual fields")
        rest = ["model_validate_json"] if code == _PYDANTIC_2 else []
        return Ext(code, pack_lossless([*name, made, *rest]))

    def _called(self, name: TypeName, node: Object) -> Ext:
        """The ext type that makes the same call, such as that of an enum with its value."""
        if node.states or node.items or node.pairs or not node.args:
            raise NoEqualForm(f"holds an object of {_words(name)} of an unknown form")
        if name[0].partition(".")[0] in sys.stdlib_module_names or "." in name[1]:
            raise NoEqualForm(f"holds an object of {_words(name)}, which is not copied")
        args = self._items(node.args)
        if len(args) == 1:
            return _call(_ONE, name, args[0])
        return _call(_ARGUMENTS, name, args)


def _is_plain(key: Node) -> bool:
    """Whether a key of a dict is the same in msgpack, which has tuples as keys."""
    if isinstance(key, tuple):
        return all(_is_plain(part) for part in key)
    return key is None or isinstance(key, bool | int | float | str)


def _name(node: Global) -> TypeName:
    module, name = OLD_MODULES.get(node.module, node.module), node.name
    if node.module == "__builtin__":
        name = OLD_NAMES.get(name, name)
    return module.replace("pathlib._local", "pathlib", 1), name


def _is_folded(args: tuple[Node, ...]) -> bool:
    return bool(args) and isinstance(args[0], bytes) and len(args[0]) == 10 and args[0][2] > 127


def _standard(name: TypeName, node: Object) -> Ext:
    """The ext type of an object of the standard library."""
    if name == DATETIME and _is_folded(node.args):
        raise NoEqualForm("holds a datetime with fold=1, which would be lost")
    return _ext_of(_inert(node))


def _inert(node: Node) -> Value:
    """The inert value of an argument of the standard library's classes."""
    if node is None or isinstance(node, bool | int | float | str | bytes):
        return node
    if isinstance(node, list):
        return [_inert(item) for item in node]
    if isinstance(node, tuple):
        return Tagged(TUPLE, [_inert(item) for item in node])
    if isinstance(node, Dict):
        return {key: _inert(one) for key, one in _texts(node)}
    if isinstance(node, Object) and isinstance(node.callee, Global):
        name = _name(node.callee)
        if name in _STANDARD:
            args = [_inert(one) for one in node.args]
            return build(
                ".".join(name), Parts(args, states=[_inert(one) for one in node.states]), 0
            )
    raise NoEqualForm("holds an object of an unknown form")


def _ext_of(found: Value) -> Ext:
    """The ext type for an inert object of the standard library."""
    if isinstance(found, Tagged):
        module, _, cls = found.type.rpartition(".")
        name, payload = (module, cls), found.payload
        if name == DATETIME and isinstance(payload, str):
            return Ext(_METHOD, pack_lossless([*name, payload, "fromisoformat"]))
        if name == ("datetime", "time") and isinstance(payload, dict):
            zone = payload.get("tzinfo")
            made = {**payload, "tzinfo": None if zone is None else _ext_of(zone)}
            return _call(_FIELDS, name, made)
        if name == TIMEZONE and isinstance(payload, list):
            return _call(_ARGUMENTS, name, [_ext_of(payload[0]), *payload[1:]])
        if module == "ipaddress" and isinstance(payload, int):
            payload = _address(cls, payload)
        if name in ONE_ARGUMENT and isinstance(payload, str):
            return _call(_ONE, name, payload)
        if name in ARGUMENTS and isinstance(payload, list):
            return _call(_ARGUMENTS, name, payload)
        raise NoEqualForm(f"holds a {_words(name)} of an unknown form")
    raise NoEqualForm("holds an object of an unknown form")


def _address(cls: str, number: int) -> str:
    """The text of an address that is pickled as a number."""
    import ipaddress  # loaded when needed

    kind = ipaddress.IPv4Address if cls == "IPv4Address" else ipaddress.IPv6Address
    return str(kind(number))


def _call(code: int, name: TypeName, content: Any) -> Ext:
    return Ext(code, pack_lossless([*name, content]))


def _words(name: TypeName) -> str:
    return f"'{name[0]}.{name[1]}'"
