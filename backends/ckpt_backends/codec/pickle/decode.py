"""Decodes pickles to inert values: converts the nodes of `machine` to a tree, within limits.

A pickle may refer to the same object several times. Each reference is expanded again, within the
limits. Special nodes:

* `Tagged("ckpt.reference", LEVELS)`: a reference to a container around it, LEVELS levels up;
* `Tagged("ckpt.global", "module.name")`: a class or function that is not called;
* `ckpt.persistent` and `ckpt.extension`: persistent ids and extension codes;
* `ckpt.call`: a call of something that is not a name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckpt_backends.codec.limits import PastLimit, past_bytes
from ckpt_backends.codec.pickle.known_classes import Parts, build
from ckpt_backends.codec.pickle.machine import (
    OLD_MODULES,
    OLD_NAMES,
    Dict,
    Extension,
    Global,
    Machine,
    Node,
    Object,
    Persistent,
    Set,
)
from ckpt_backends.codec.values import CHANNELS, Cut, Tagged, Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ckpt_backends.codec.limits import Limits

_OPCODES_PER_NODE = 4
_SMALL_INT = 64
_MAX_ODD_KEYS = 2000
"""Maximum number of keys of one dict with equal hashes. More of them take quadratic time."""
_BAD = (ValueError, IndexError, KeyError, AttributeError, TypeError)
"""The exceptions that damaged pickles cause, including those of `pickletools`."""


def decode_pickle(data: bytes, limits: Limits) -> Value:
    """Decode a pickle; a `Cut` if it exceeds a limit. Raises ValueError if it is damaged."""
    past = past_bytes(len(data), limits)
    machine = Machine(_OPCODES_PER_NODE * limits.nodes)
    try:
        machine.run(data[: limits.value_bytes])
    except PastLimit as reached:
        past = past or str(reached)
    except _BAD as error:
        if not past:
            raise ValueError(_words(error)) from error
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
    except _BAD as error:
        raise ValueError(_words(error)) from error
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


def _words(error: Exception) -> str:
    if isinstance(error, IndexError):
        return "not a pickle: nothing on the stack"
    return f"not a pickle: {error}"


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
