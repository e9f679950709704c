"""Find the names in pickles: what they import, and what of it they call.

The machine that runs a pickle here builds placeholders. It sees all calls, also those whose result
the pickle throws away.
"""

from __future__ import annotations

from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain

from ckpt_backends.codec.limits import DEFAULT_LIMITS
from ckpt_backends.codec.pickle.machine import Dict, Global, Machine, Node, Object, Set
from ckpt_backends.codec.values import CHANNELS
from ckpt_cli.core.doctor.named_types import NamedIn, Names, TypeName, check_length

_OPCODES = 16 * DEFAULT_LIMITS.nodes
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
    is_old = data[:1] != _PROTO or data[1:2] < _FIRST_OF_PYTHON_3
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
