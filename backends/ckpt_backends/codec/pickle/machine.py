"""Runs pickles safely: no name is imported, and no object is called or built.

The opcodes come from `pickletools.genops`, which only parses them. The objects that a pickle would
build are represented by nodes: lists, tuples, numbers and texts as they are, all others by the
classes below. If the pickle shares an object, the node is shared, so nodes may form cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pickletools import genops
from typing import Any, TypeAlias

from ckpt_backends.codec.limits import PastLimit

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
        """Run a whole pickle. Raises `PastLimit`, and ValueError, IndexError or KeyError."""
        self.follow(_steps(data))

    def follow(self, steps: Iterable[tuple[Step, Any]]) -> None:
        """Run opcodes with their arguments. Raises the errors of `run`."""
        remaining = iter(steps)
        for step, argument in islice(remaining, self._opcodes):
            step(self, argument)
        if next(remaining, None) is not None:
            raise PastLimit(f"more than {self._opcodes} opcodes")
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


def _steps(data: bytes) -> Iterator[tuple[Step, Any]]:
    end = 0
    for opcode, argument, position in genops(data):
        yield STEPS[opcode.name], argument
        end = (position or 0) + 1
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes behind the end")


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
