"""Values as people look at them: paths into them, equality, and the limits of what is shown."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from enum import Enum
from itertools import compress
from json import encoder
from operator import is_not
from typing import Any, Literal, NamedTuple, TypeAlias

from ckpt_backends import shell
from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.errors import NotFound, UsageError

SETS = ("builtins.set", "builtins.frozenset")

_Holder: TypeAlias = list[Value] | dict[Value, Value] | Tagged | Cut
_HOLDERS = (list, dict, Tagged, Cut)


class Numbers:
    """Assign a number to every value; two values get the same number exactly if they are equal.

    Values must not change while the object is in use.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[int, tuple[Value, int]] = {}

    def __call__(self, value: Value) -> int:
        # Not recursive, because values may be nested as deep as the decoder allows. First collect
        # all containers from the outside in, then number them from the inside out.
        holders = [value] if isinstance(value, _HOLDERS) else []
        for holder in holders:
            if id(holder) not in self._known:
                holders += [part for part in _parts(holder) if isinstance(part, _HOLDERS)]
        for holder in reversed(holders):
            if id(holder) not in self._known:
                # Keep the value: Python reuses the id of an object that was freed.
                self._known[id(holder)] = (holder, self._number(self._shape(holder)))
        return self._of(value)

    def _of(self, value: Value) -> int:
        if isinstance(value, _HOLDERS):
            return self._known[id(value)][1]
        if isinstance(value, float):
            return self._number((float, value.hex()))
        return self._number((type(value), value))

    def _shape(self, value: _Holder) -> Hashable:
        if isinstance(value, list):
            return "list", tuple(map(self._of, value))
        if isinstance(value, dict):
            items = map(self._of, value.values())
            return "dict", frozenset(zip(map(self._of, value), items, strict=True))
        if isinstance(value, Cut):
            return "cut", self._of(value.kept), value.size, value.reason
        if is_set(value) and isinstance(value.payload, list):
            members = Counter(map(self._of, value.payload))
            return "set", value.type, frozenset(members.items())
        return "tagged", value.type, self._of(value.payload)

    def _number(self, shape: Hashable) -> int:
        return self._numbers.setdefault(shape, len(self._numbers))


def same(one: Value, other: Value) -> bool:
    """Return whether two values are strictly equal; stops at the first difference."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if type(one) in _PLAIN:
        return one == other
    # Plain items are compared by Python itself, nested ones are taken apart: most of a long list of
    # messages is compared at the speed of C.
    pairs: list[tuple[Value, Value]] = []
    if not _same_items([one], [other], pairs):
        return False
    for a, b in pairs:
        if isinstance(a, list) and isinstance(b, list):
            if len(a) != len(b) or not _same_items(a, b, pairs):
                return False
        elif isinstance(a, dict) and isinstance(b, dict):
            if len(a) != len(b):
                return False
            if not _are_texts(a):
                # As keys, Python treats 1, 1.0 and True as equal.
                if not _numbered(a, b):
                    return False
                continue
            if [*a] == [*b]:
                those = [*b.values()]
            elif a.keys() == b.keys():
                those = [*map(b.__getitem__, a)]
            else:
                return False
            if not _same_items([*a.values()], those, pairs):
                return False
        elif isinstance(a, Tagged) and isinstance(b, Tagged) and not is_set(a):
            if a.type != b.type or not _same_items([a.payload], [b.payload], pairs):
                return False
        elif not _same_members(a, b) and not _numbered(a, b):
            return False
    return True


def same_start(these: list[Value], those: list[Value]) -> int:
    """Return how many items at the start of two lists are strictly equal."""
    shorter = min(len(these), len(those))
    if same(these[:shorter], those[:shorter]):
        return shorter
    return next(n for n, (a, b) in enumerate(zip(these, those, strict=False)) if not same(a, b))


_FEW = 8
_TEXT = {str}
_PLAIN = {str, int, bool, bytes, type(None)}
"""Types with strict equality in Python, if both values have the same type."""


def _same_items(these: list[Value], those: list[Value], pairs: list[tuple[Value, Value]]) -> bool:
    """Compare the plain items of two lists of equal length; append nested items to `pairs`."""
    # Successive values of a channel consist of the same objects, apart from a few.
    other = [*compress(zip(these, those, strict=False), map(is_not, these, those))]
    if len(other) > _FEW:
        kinds = list(map(type, these))
        if kinds != list(map(type, those)):
            return False
        if {*kinds} <= _PLAIN:
            return these == those
    for a, b in other:
        if type(a) is not type(b):
            return False
        if type(a) in _PLAIN:
            if a != b:
                return False
        elif isinstance(a, float) and isinstance(b, float):
            if a.hex() != b.hex():
                return False
        elif isinstance(a, _HOLDERS):
            pairs.append((a, b))
        elif a != b:
            return False
    return True


def _are_texts(keys: dict[Value, Value]) -> bool:
    """Return whether all keys are texts, in a tenth of the time of a look at each type."""
    try:
        "".join(keys)  # type: ignore[arg-type]  # refuses anything else
    except TypeError:
        return False
    return True


def _same_members(one: Value, other: Value) -> bool:
    """Return whether two sets of texts are equal; False only means that it is not known."""
    if not (isinstance(one, Tagged) and isinstance(other, Tagged) and one.type == other.type):
        return False
    a, b = one.payload, other.payload
    if not (isinstance(a, list) and isinstance(b, list) and len(a) == len(b)):
        return False
    return {*map(type, a), *map(type, b)} <= _TEXT and sorted(map(str, a)) == sorted(map(str, b))


def _numbered(one: Value, other: Value) -> bool:
    numbers = Numbers()
    return numbers(one) == numbers(other)


def is_set(value: Value) -> bool:
    """Return whether a value is a Python set or frozenset."""
    return isinstance(value, Tagged) and value.type in SETS


def _parts(value: Value) -> Iterable[Value]:
    match value:
        case list():
            return value
        case dict():
            return (*value.keys(), *value.values())
        case Tagged():
            return (value.payload,)
        case Cut():
            return (value.kept,)
        case _:
            return ()


def unwrap(value: Value) -> dict[Value, Value] | list[Value] | None:
    """Return the dict or list inside a value, or the part of it that is left after a cut.

    Returns None for any other value.
    """
    while isinstance(value, Tagged | Cut):
        value = value.payload if isinstance(value, Tagged) else value.kept
    return value if isinstance(value, dict | list) else None


def item_count(value: Value) -> int:
    """Return the number of items in a value; 1 for a value that cannot have items."""
    held = unwrap(value)
    return 1 if held is None else len(held)


def fields_of(value: Value) -> dict[Value, Value]:
    """Return a dict, or the fields of an object; empty for any other value."""
    payload = value.payload if isinstance(value, Tagged) else value
    return payload if isinstance(payload, dict) else {}


EXAMPLE = """messages[-1].content, messages[].id or plan["odd.key"]"""
MAX_NAMES = 20


class All(Enum):
    """The step `[]`: all items."""

    ALL = "[]"


Step: TypeAlias = str | int | All
Path: TypeAlias = tuple[Step, ...]

_BARE = r"[^\s.\[\]\"'\\]+"
_STEP = re.compile(
    rf"""
    \.? (?P<bare>{_BARE})
    | \.? \[ \s*+ (?:
        (?P<index>-?\d{{1,18}})
        | (?P<double>"(?:[^"\\]|\\.)*")
        | '(?P<single>(?:[^'\\]|\\.)*)'
        | (?P<all>)
      ) \s* \]
    | \.? (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    """,
    re.VERBOSE,
)


class Selected(NamedTuple):
    """One place that a path selects."""

    path: Path
    """Contains no `[]` and no negative indexes."""
    value: Value


def parse_path(text: str) -> Path:
    """Return the steps of a path; no steps for `.`, the whole value.

    Raises `UsageError` if the path cannot be parsed.
    """
    if text == ".":
        return ()
    steps: list[Step] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            break
        if steps and (match["bare"] or match["quoted"]) and text[position] != ".":
            break
        steps.append(_step(text, match))
        position = match.end()
    if position < len(text) or not text:
        where = f" at '{text[position:]}'" if position else ""
        raise UsageError(f"cannot read path '{text}'{where}", hint=f"use {EXAMPLE}")
    return tuple(steps)


def first_step(text: str) -> Step | None:
    """Return the first step of a text that begins with a path; None if it does not."""
    match = _STEP.match(text)
    return None if match is None else _step(text, match)


def format_path(path: Path) -> str:
    """Return a path as text that `parse_path` accepts."""
    if not path:
        return "."
    parts: list[str] = []
    for step in path:
        if isinstance(step, All):
            parts.append("[]")
        elif isinstance(step, int):
            parts.append(f"[{step}]")
        elif re.fullmatch(_BARE, step):
            parts.append(f".{step}" if parts else step)
        else:
            parts.append(f"[{json.dumps(step, ensure_ascii=False)}]")
    return "".join(parts)


def select(value: Value, path: Path) -> list[Selected]:
    """Return the places that a path selects.

    Items that do not have the rest of the path after `[]` are skipped, unless no item has it.
    Raises `NotFound` with the known keys if nothing is selected.
    """
    return list(_select(Selected((), value), path))


def _select(at: Selected, path: Path) -> Iterator[Selected]:
    if not path:
        yield at
        return
    step, rest = path[0], path[1:]
    if not isinstance(step, All):
        yield from _select(_child(at, step), rest)
        return
    missing: NotFound | None = None
    found = False
    for child in _children(at):
        try:
            for selected in _select(child, rest):
                found = True
                yield selected
        except NotFound as error:
            missing = missing or error
    if missing and not found:
        raise missing


def _child(at: Selected, step: str | int) -> Selected:
    held = unwrap(at.value)
    if isinstance(held, dict) and step in held:
        return Selected((*at.path, step), held[step])
    if isinstance(held, list) and isinstance(step, int) and -len(held) <= step < len(held):
        index = step % len(held)
        return Selected((*at.path, index), held[index])
    raise _missing(at, format_path((step,)))


def _children(at: Selected) -> Iterator[Selected]:
    held = unwrap(at.value)
    if isinstance(held, dict):
        for key, value in held.items():
            name = key if isinstance(key, str | int) else str(key)
            yield Selected((*at.path, name), value)
    elif isinstance(held, list):
        for index, value in enumerate(held):
            yield Selected((*at.path, index), value)
    else:
        raise _missing(at, "[]")


def _missing(at: Selected, step: str) -> NotFound:
    place = f"'{format_path(at.path)}'" if at.path else "the state"
    return NotFound(f"no '{step}' in {place}", hint=_what_is_there(at.value))


def _what_is_there(value: Value) -> str:
    held = unwrap(value)
    cut = " (it was cut)" if isinstance(value, Cut) else ""
    if isinstance(held, dict):
        names = [format_path((k,)) if isinstance(k, str | int) else str(k) for k in held]
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        return f"it has {', '.join(map(shell.word, names[:MAX_NAMES])) or 'no keys'}{more}{cut}"
    if isinstance(held, list):
        kind = "set" if is_set(value) else "list"
        last = f": [0] to [{len(held) - 1}], or [] for all" if held else ""
        return f"it is a {kind} of {len(held)} items{last}{cut}"
    if isinstance(value, Opaque):
        return f"it was not read: {value.reason}"
    kind = value.type if isinstance(value, Tagged) else type(value).__name__
    return f"it is a single value ({kind}){cut}"


def _step(text: str, match: re.Match[str]) -> Step:
    if match["bare"] is not None:
        return match["bare"]
    if match["index"] is not None:
        return int(match["index"])
    quoted, single = match["double"] or match["quoted"], match["single"]
    if quoted is not None and quoted.startswith("'"):
        single = quoted[1:-1]
    if single is not None:
        return re.sub(r"\\(.)", r"\1", single)
    if quoted is None:
        return All.ALL
    try:
        return str(json.loads(quoted, strict=False))
    except ValueError:
        raise UsageError(f"cannot read {quoted} in path '{text}'", hint=f"use {EXAMPLE}") from None


LONGEST = 50_000
"""Number of characters of a string, or of bytes, that are kept."""
MOST = 5_000
"""Number of parts of one value that are kept, on all levels together."""


class Room(NamedTuple):
    """How much of a value is kept."""

    text: int = LONGEST
    """Characters of each string."""
    data: int = LONGEST
    """Bytes of each value of bytes."""
    parts: int = MOST
    """Parts of the whole value, on all levels together."""


SCREEN = Room()
PAGE = Room(text=1_000, data=64, parts=200)
"""What is kept of each channel where a whole state is printed on a terminal."""


def clip(value: Value, room: Room = SCREEN) -> Value:
    """Shorten texts and bytes, and keep the first parts of a value, as far as there is room.

    A `Cut` marks each place where something was left out. A small value is returned unchanged.
    """
    return _clip(value, room, [room.parts])


def clip_state(value: Value) -> tuple[Value, bool]:
    """Cut a channel for a page, and say whether something was left out.

    Of a list, the last items are kept: they are the newest messages.
    """
    kept = value
    if isinstance(value, list):
        most: list[Value] = []
        left = [PAGE.parts]
        for item in reversed(value):
            part = _clip(item, PAGE, left)
            if left[0] <= 0 and most:
                break
            most.append(part)
        kept = most[::-1]
        if len(most) < len(value):
            words = "one is" if len(most) == 1 else f"{len(most):,} are"
            kept = Cut(kept, len(value), f"its last {words} shown", "item")
    else:
        kept = clip(value, PAGE)
    return kept, _has_cut(kept) > _has_cut(value)


def _has_cut(value: Value) -> int:
    """Count the places where something was left out."""
    found, todo = 0, [value]
    while todo:
        one = todo.pop()
        found += isinstance(one, Cut)
        todo += _parts(one)
    return found


def _clip(value: Value, room: Room, left: list[int]) -> Value:
    left[0] -= 1
    if isinstance(value, str | bytes):
        most = room.text if isinstance(value, str) else room.data
        if len(value) <= most:
            return value
        reason = "only its beginning is shown"
        unit: Literal["byte", "character"] = "character" if isinstance(value, str) else "byte"
        return Cut(value[:most], len(value), reason, unit)
    if isinstance(value, list):
        items: list[Value] = []
        for item in value:
            if left[0] <= 0:
                return Cut(items, len(value), f"its first {len(items):,} are shown", "item")
            items.append(_clip(item, room, left))
        return items
    if isinstance(value, dict):
        fields: dict[Value, Value] = {}
        for key, item in value.items():
            if left[0] <= 0:
                return Cut(fields, len(value), f"its first {len(fields):,} are shown", "key")
            fields[key] = _clip(item, room, left)
        return fields
    if isinstance(value, Tagged):
        return Tagged(value.type, _clip(value.payload, room, left))
    if isinstance(value, Cut):
        return value.with_kept(_clip(value.kept, room, left))
    return value


def is_larger(value: Value, most: int) -> bool:
    """Return whether a value has more than `most` parts and characters together."""
    waiting, left = [value], most
    while waiting:
        one = waiting.pop()
        left -= 1 + (len(one) if isinstance(one, str | bytes | list | dict) else 0)
        if left < 0:
            return True
        waiting += _parts(one)
    return False


def _line_encoder(*, ascii_only: bool, allow_nan: bool) -> Callable[[Any], str]:
    """Return the function that makes a line of JSON, without a check for circles.

    `JSONEncoder.encode` makes a new encoder in C for each record, which takes longer than most
    records. A Python without this encoder, or with another one, makes do with `encode`.
    """
    plain = json.JSONEncoder(ensure_ascii=ascii_only, allow_nan=allow_nan, separators=(",", ":"))
    make: Any = getattr(encoder, "c_make_encoder", None)
    quoted = encoder.encode_basestring_ascii if ascii_only else encoder.encode_basestring
    try:
        parts = make(None, plain.default, quoted, None, ":", ",", False, False, allow_nan)
    except TypeError:
        return plain.encode
    return lambda record: "".join(parts(record, 0))


quoted: Callable[[str], str] = encoder.encode_basestring
"""Writes a text with all characters as they are."""
compact_json = _line_encoder(ascii_only=True, allow_nan=True)
"""Writes a record in ASCII."""
json_line = _line_encoder(ascii_only=False, allow_nan=False)
"""Writes a record with all characters as they are. Raises ValueError at NaN and infinity."""
