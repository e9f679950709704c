"""The arguments of tools, as JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_LONGEST = 2000
"""Number of characters that a text may have at most."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool."""

    kind: str
    """`string`, `integer` or `boolean`."""
    about: str
    """What it means, for the model that makes the call."""
    required: bool = False
    many: bool = False
    """Whether it is a list of these."""
    choices: Sequence[str] = ()
    least: int | None = None
    most: int | None = None

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the argument."""
        one: dict[str, Any] = {"type": self.kind}
        if self.choices:
            one["enum"] = list(self.choices)
        elif self.kind == "string":
            one["maxLength"] = _LONGEST
        if self.least is not None:
            one["minimum"] = self.least
        if self.most is not None:
            one["maximum"] = self.most
        if self.many:
            return {"type": "array", "items": one, "maxItems": 1000, "description": self.about}
        return {**one, "description": self.about}


def text(about: str, *, required: bool = False, choices: Sequence[str] = ()) -> Parameter:
    """Return an argument that is a text."""
    return Parameter("string", about, required, choices=choices)


def texts(about: str, *, choices: Sequence[str] = ()) -> Parameter:
    """Return an argument that is a list of texts."""
    return Parameter("string", about, many=True, choices=choices)


def flag(about: str) -> Parameter:
    """Return an argument that is true or false; false if left out."""
    return Parameter("boolean", about)


def number(about: str, least: int, most: int | None = None) -> Parameter:
    """Return an argument that is a whole number."""
    return Parameter("integer", about, least=least, most=most)


def object_schema(parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """Return the JSON Schema of all arguments of a tool."""
    return {
        "type": "object",
        "properties": {name: one.schema() for name, one in parameters.items()},
        "required": [name for name, one in parameters.items() if one.required],
        "additionalProperties": False,
    }


THREAD = text("The id of the thread, as `threads` prints it.", required=True)
REF = text(
    "Which checkpoint: head (the default), an id or the start or end of one, ~2 (two before the"
    " head), step:3, or a time such as 2h or 2026-04-07T10:00."
)
NAMESPACE = text("The namespace of a subgraph, as `history` with all_ns prints it. Default: root.")
CHANNELS = texts("Only these channels.")
WHERE = text(
    "A filter over threads, such as: status = error and idle > 2h and not thread like 'test-%'."
    " Fields: thread, status, next, source, step, age, idle, first_at, last_at, checkpoints, bytes,"
    " error, question, user, metadata.KEY, values.CHANNEL. Operators: = != < <= > >= in like ~ and"
    " or not."
)
THREADS = texts("Only the threads with these ids.")
SINCE = text("Only what is not older than this: an age such as 2h or 7d, or a time.")
PAGING = {
    "cursor": text("next_cursor of the page before, to get the next page of the same call."),
    "max_chars": number("Size of the answer in characters, if the default is too much.", 1000),
}
