"""Filters choose the threads for which they hold, as `threads list` prints them and LangGraph reads
them.
"""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple

from ckpt_backends.protocol import Store
from ckpt_backends.testing.conformance.answers import rows, run
from ckpt_backends.testing.filling import FilledStore
from ckpt_cli.core.filters import parse_filter
from ckpt_cli.queries.threads import Selection, selected_threads

EACH = 2
"""Number of conditions of each field."""
SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    **{"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt},
    **{">=": operator.ge, "like": lambda value, start: value.startswith(start)},
}


class ThreadFacts(NamedTuple):
    """The JSON of a thread in `threads list --long`, its state, and the time of the question."""

    row: Mapping[str, Any]
    values: Any
    now: datetime

    def time(self, name: str) -> datetime:
        return datetime.fromisoformat(self.row[name])


class MadeFilter(NamedTuple):
    """A filter, and what it means."""

    text: str
    holds: Callable[[ThreadFacts], bool]


def at(value: Any, *path: str | int) -> list[Any]:
    """Return what stands at a path; None if nothing does."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return [None]
    return [value]


FIELDS: Mapping[str, Callable[[ThreadFacts], list[Any]]] = {
    "thread": lambda one: at(one.row, "thread_id"),
    "user": lambda one: at(one.row, "user"),
    "source": lambda one: at(one.row, "source"),
    "error": lambda one: at(one.row, "error"),
    "checkpoints": lambda one: at(one.row, "checkpoints"),
    "bytes": lambda one: at(one.row, "bytes"),
    # Without a head, the list tells the step from the id.
    "step": lambda one: at(one.row, "step") if "source" in one.row else [None],
    "status": lambda one: one.row["conditions"],
    "next": lambda one: one.row.get("next") or [None],
    "age": lambda one: [one.now - one.time("first_at")],
    "idle": lambda one: [one.now - one.time("last_at")],
    "first_at": lambda one: [one.time("first_at")],
    "last_at": lambda one: [one.time("last_at")],
    "question": lambda one: at(one.row, "question"),
    "question.question": lambda one: at(one.row, "question", "question"),
    "metadata.step": lambda one: at(one.row, "metadata", "step"),
    "metadata.user_id": lambda one: at(one.row, "metadata", "user_id"),
    "values.note": lambda one: at(one.values, "note"),
    "values.count": lambda one: at(one.values, "count"),
    "values.items[0]": lambda one: at(one.values, "items", 0),
    "values.messages[-1].content": lambda one: at(one.values, "messages", -1, "content"),
}


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def condition(field: str, facts: Sequence[ThreadFacts], dice: Random) -> MadeFilter | None:
    """Return a filter about a field with a value that a thread has; None if no thread has any."""
    known = [value for one in facts for value in FIELDS[field](one)]
    if "." in field:  # what cannot be read is not null
        known = [one for one in known if isinstance(one, str | int)]
    if not known:
        return None
    value, sign = dice.choice(known), dice.choice([*SIGNS])
    match value:
        case str() if field == "status":
            sign, written = "=", value
        case str() if sign == "like":
            value = value[: dice.randint(0, len(value))]
            written = quoted(re.sub(r"([%_\\])", r"\\\1", value) + "%")
        case str():
            written = quoted(value)
        case int():
            sign, written = "=" if sign == "like" else sign, str(value)
        case timedelta():
            value = timedelta(seconds=int(value.total_seconds()) + dice.randint(0, 1))
            sign, written = ">" if sign == "like" else sign, f"{value.total_seconds():.0f}s"
        case datetime():
            value = value.replace(microsecond=0)
            sign, written = "<" if sign == "like" else sign, f"{value:%Y-%m-%dT%H:%M:%SZ}"
        case _:
            value, sign, written = None, "=", "null"

    def holds(one: ThreadFacts) -> bool:
        found = [each for each in FIELDS[field](one) if isinstance(each, type(value))]
        return any(SIGNS[sign](each, value) for each in found)

    return MadeFilter(f"{field} {sign} {written}", holds)


def joined(one: MadeFilter, other: MadeFilter, kind: str) -> MadeFilter:
    match kind:
        case "and":
            text = f"({one.text}) and ({other.text})"
            return MadeFilter(text, lambda facts: one.holds(facts) and other.holds(facts))
        case "or":
            text = f"({one.text}) or ({other.text})"
            return MadeFilter(text, lambda facts: one.holds(facts) or other.holds(facts))
        case "not":
            return MadeFilter(f"not ({one.text})", lambda facts: not one.holds(facts))
    return one


def test_a_filter_chooses_the_threads_for_which_it_holds(store: Store, filled: FilledStore) -> None:
    listed = run(filled, "threads", "list", "--long", "--all", "-o", "json").json
    now = datetime.fromisoformat(listed[0]["last_at"]) + timedelta(hours=2)
    facts = [ThreadFacts(row, rows(filled, row["thread_id"])[0]["values"], now) for row in listed]
    dice = Random(4711)
    alone = [one for field in [*FIELDS] * EACH if (one := condition(field, facts, dice))]
    for one, other in zip(alone, dice.sample(alone, len(alone)), strict=True):
        made = joined(one, other, dice.choice(["and", "or", "not", "", ""]))
        chosen = selected_threads(store, Selection(where=parse_filter(made.text)), now)
        wanted = [each.row["thread_id"] for each in facts if made.holds(each)]
        assert [each.thread_id for each in chosen] == wanted, made.text
