"""Filters made at random from what threads hold, and what they mean, told without ckpt's filters.

A filter is made together with a function that decides from the JSON of a thread whether it holds.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any

Holds = Callable[["ThreadFacts"], bool]
Path = tuple[str | int | None, ...]
"""Keys, indexes, and None for `[]`."""
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_STATUSES = ("error", "interrupted", "pending", "done", "unknown", "empty")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_DEEPEST = 4


@dataclass(frozen=True)
class GeneratedFilter:
    """A filter as text, and its meaning."""

    text: str
    holds: Holds


@dataclass(frozen=True)
class ThreadFacts:
    """The JSON of a thread in `threads list --long`, its state, and the time of the question."""

    row: Mapping[str, Any]
    values: Mapping[str, Any]
    now: datetime

    def of(self, name: str) -> list[Any]:
        """Return the values of a field without a path; None for a missing one."""
        if name in {"age", "idle"}:
            at = self.time("first_at" if name == "age" else "last_at")
            return [None if at is None else self.now - at]
        if name in {"first_at", "last_at"}:
            return [self.time(name)]
        if name == "status":
            return list(self.row["conditions"])
        if name == "step" and "source" not in self.row:
            return [None]  # there is no head; the list tells the step from the id
        found = self.row.get("thread_id" if name == "thread" else name)
        return (found or [None]) if name == "next" else [found]

    def time(self, name: str) -> datetime | None:
        """Return a time of the row."""
        found = self.row[name]
        return None if found is None else datetime.fromisoformat(found)

    def at(self, root: str, path: Path) -> list[Any]:
        """Return the values at a path in metadata, question or state; None for a missing one."""
        top = self.values if root == "values" else self.row.get(root, {})
        found = _walk(top, path)
        return list(found) if found else [None]


def _walk(value: Any, path: Path) -> list[Any] | None:
    """Return what lies at a path; None if it does not exist."""
    if not path:
        return [value]
    step, rest = path[0], path[1:]
    if step is None:
        if not isinstance(value, list | dict):
            return None
        inner = value if isinstance(value, list) else value.values()
        found = [_walk(one, rest) for one in inner]
        there = [one for one in found if one is not None]
        return None if found and not there else [one for some in there for one in some]
    if isinstance(value, dict) and step in value:
        return _walk(value[step], rest)
    if isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
        return _walk(value[step], rest)
    return None


def generated_filters(
    facts: Sequence[ThreadFacts], random: Random, number: int
) -> Iterator[GeneratedFilter]:
    """Yield filters about some threads: all fields and operators, alone and joined."""
    make = _Maker(facts, random)
    for _ in range(number):
        yield make.filter(random.choice((0, 0, 1, 2)))


class _Maker:
    def __init__(self, facts: Sequence[ThreadFacts], random: Random) -> None:
        self._facts = facts
        self._random = random
        self._places = [
            (root, path)
            for root in ("metadata", "question", "values")
            for path in sorted(_common_paths(facts, root), key=repr)
        ]

    def filter(self, depth: int) -> GeneratedFilter:
        kind = self._random.choice(("and", "or", "not")) if depth else ""
        if not kind:
            return self._condition()
        first = self.filter(depth - 1)
        if kind == "not":
            return GeneratedFilter(f"not ({first.text})", lambda one: not first.holds(one))
        other = self.filter(depth - 1)
        text = f"({first.text}) {kind} ({other.text})"
        if kind == "and":
            return GeneratedFilter(text, lambda one: first.holds(one) and other.holds(one))
        return GeneratedFilter(text, lambda one: first.holds(one) or other.holds(one))

    def _condition(self) -> GeneratedFilter:
        match self._random.randrange(10):
            case 0 | 1:
                return self._status()
            case 2 | 3:
                return self._time()
            case 4 | 5 if self._places:
                return self._at(*self._random.choice(self._places))
            case 6 | 7:
                name = self._random.choice(("step", "checkpoints", "bytes"))
                return self._number(name)
        name = self._random.choice(
            ("thread", "thread", "next", "source", "error", "question", "user")
        )
        known = [value for one in self._facts for value in one.of(name)]
        return self._text(name, known, lambda one: one.of(name))

    def _status(self) -> GeneratedFilter:
        some = self._random.sample(_STATUSES, self._random.randint(1, 2))
        if self._random.random() < 0.3:
            only = some[0]
            return GeneratedFilter(f"status != {only}", lambda one: only not in one.of("status"))
        text = f"status in ({', '.join(some)})" if len(some) > 1 else f"status = {some[0]}"
        return GeneratedFilter(text, lambda one: not {*some}.isdisjoint(one.of("status")))

    def _time(self) -> GeneratedFilter:
        name = self._random.choice(("age", "idle", "idle", "first_at", "last_at"))
        some = self._random.choice(self._facts)
        sign = self._random.choice(tuple(_ORDERS))
        (value,) = some.of(name)
        if isinstance(value, timedelta):
            seconds = max(0, int(value.total_seconds()) + self._random.randint(0, 1))
            return self._ordered(name, sign, f"{seconds}s", timedelta(seconds=seconds))
        if isinstance(value, datetime):
            moment = value.replace(microsecond=0)
            return self._ordered(name, sign, moment.strftime("%Y-%m-%dT%H:%M:%SZ"), moment)
        return GeneratedFilter(f"{name} = null", lambda one: one.of(name) == [None])

    def _number(self, name: str) -> GeneratedFilter:
        known = [value for one in self._facts for value in one.of(name) if value is not None]
        value = self._random.choice(known or [0]) + self._random.randint(-1, 1)
        value = max(value, 0) if name == "bytes" else value
        if self._random.random() < 0.3:
            return GeneratedFilter(f"{name} = {value}", lambda one: one.of(name) == [value])
        return self._ordered(name, self._random.choice(tuple(_ORDERS)), str(value), value)

    def _ordered(self, name: str, sign: str, written: str, wanted: Any) -> GeneratedFilter:
        def holds(one: ThreadFacts) -> bool:
            (value,) = one.of(name)
            return value is not None and _ORDERS[sign](value, wanted)

        return GeneratedFilter(f"{name} {sign} {written}", holds)

    def _at(self, root: str, path: Path) -> GeneratedFilter:
        known = [value for one in self._facts for value in one.at(root, path)]
        value = self._random.choice(known)
        field = root + "".join(map(_step, path))
        if isinstance(value, bool) or not isinstance(value, int | float):
            return self._text(field, known, lambda one: one.at(root, path))
        if self._random.random() < 0.5:
            return _any_of(field, "=", str(value), lambda one: one.at(root, path), _is(value))
        sign = self._random.choice(tuple(_ORDERS))

        def is_so(one: Any) -> bool:
            return _is_number(one) and _ORDERS[sign](one, value)

        return _any_of(field, sign, str(value), lambda one: one.at(root, path), is_so)

    def _text(
        self, field: str, known: Sequence[Any], values: Callable[[ThreadFacts], list[Any]]
    ) -> GeneratedFilter:
        texts = [one for one in known if isinstance(one, str)]
        if not texts or self._random.random() < 0.1:
            sign = self._random.choice(("=", "!="))
            return _any_of(field, sign, "null", values, lambda one: one is None)
        text = self._random.choice(texts)
        begin, end = sorted(self._random.choices(range(len(text) + 1), k=2))
        part = text[begin:end]
        match self._random.choice(("=", "!=", "in", "~", "<", ">=", "%a%", "a%", "%a", "_")):
            case ("=" | "!=") as sign:
                return _any_of(field, sign, _quoted(text), values, lambda one: one == text)
            case "in":
                other = self._random.choice(texts)
                written = f"({_quoted(text)}, {_quoted(other)})"
                return _any_of(field, "in", written, values, lambda one: one in (text, other))
            case ("<" | ">=") as sign:
                order = _ORDERS[sign]
                return _any_of(
                    field, sign, _quoted(text), values, _of_text(lambda x: order(x, text))
                )
            case "~":
                pattern = _quoted(re.escape(part))
                return _any_of(field, "~", pattern, values, _of_text(lambda one: part in one))
            case "%a%":
                test, pattern = _of_text(lambda one: part in one), f"%{_literal(part)}%"
            case "a%":
                start = text[:end]
                test, pattern = _of_text(lambda one: one.startswith(start)), f"{_literal(start)}%"
            case "%a":
                rest = text[begin:]
                test, pattern = _of_text(lambda one: one.endswith(rest)), f"%{_literal(rest)}"
            case _:
                before, after = text[:begin], text[begin + 1 :]
                length = len(before) + 1 + len(after)
                pattern = f"{_literal(before)}_{_literal(after)}"
                test = _of_text(
                    lambda one: (
                        one.startswith(before) and one.endswith(after) and len(one) == length
                    )
                )
        return _any_of(field, "like", _quoted(pattern), values, test)


def _any_of(
    field: str,
    sign: str,
    written: str,
    values: Callable[[ThreadFacts], list[Any]],
    test: Callable[[Any], bool],
) -> GeneratedFilter:
    """Return the filter that holds if any value passes a test; for `!=`, if none does."""
    is_opposite = sign == "!="
    text = f"{field} {sign} {written}"
    return GeneratedFilter(text, lambda one: any(map(test, values(one))) is not is_opposite)


def _of_text(test: Callable[[str], bool]) -> Callable[[Any], bool]:
    return lambda one: isinstance(one, str) and test(one)


def _is(number: float) -> Callable[[Any], bool]:
    """Return the test for a number without quotes, which is also the text that reads the same."""
    return lambda one: (_is_number(one) and one == number) or one == str(number)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _step(step: str | int | None) -> str:
    if step is None:
        return "[]"
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _PLAIN.fullmatch(step) else f"[{_quoted(step)}]"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _literal(text: str) -> str:
    """Return a pattern for `like` that matches only this text."""
    return re.sub(r"([%_\\])", r"\\\1", text)


def _common_paths(facts: Sequence[ThreadFacts], root: str) -> set[Path]:
    """Return the paths at which JSON tells all about the value, in every thread."""
    good: set[Path] = set()
    bad: set[Path] = set()
    for one in facts:
        top = one.values if root == "values" else one.row.get(root, {})
        for path, value in _paths(top):
            (bad if _is_special(value) else good).add(path)
    return {path for path in good if not any(path[:n] in bad for n in range(len(path) + 1))}


def _paths(value: Any, above: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield all paths below a value, also with `[]` and with the last index, and what is there."""
    if above:
        yield above, value
    if len(above) >= _DEEPEST or _is_special(value):
        return
    if isinstance(value, dict):
        for key, one in value.items():
            if not key.startswith("$") and key.isprintable() and key.isascii():
                yield from _paths(one, (*above, key))
    elif isinstance(value, list):
        ends = [(0, value[0]), (-1, value[-1])] if value else []
        for step, one in [*((None, one) for one in value), *ends]:
            yield from _paths(one, (*above, step))


def _is_special(value: Any) -> bool:
    """Return whether a value has its own form in JSON, which may stand for a text or a number."""
    return isinstance(value, dict) and any(
        key.startswith("$") and (key != "$type" or "$value" in value) for key in value
    )
