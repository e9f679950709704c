"""Parse and follow paths such as `messages[-1].content`, `messages[].tool_calls`,
`a."odd.key"[0]["odd.key"]`.
"""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
import json
import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple, TypeAlias

from ckpt_backends import shell
from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.errors import NotFound, UsageError
from ckpt_cli.core.values.equality import is_set
from ckpt_cli.core.values.unwrap import unwrap

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
