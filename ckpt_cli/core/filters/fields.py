"""The fields and operators of the filter language."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import NamedTuple


class Operator(StrEnum):
    """How a condition compares. `!=` is the opposite of `=`."""

    EQUAL = "="
    UNEQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="
    IN = "in"
    LIKE = "like"
    REGEX = "~"


class FieldKind(Enum):
    """What values a field has, and so what may be written after an operator."""

    TEXT = "text"
    STATUS = "a status"
    NUMBER = "a number"
    SIZE = "a size"
    DURATION = "a duration"
    TIME = "a time"
    VALUE = "a value"
    """A part of the metadata or of the state: text, a number, true, false or null."""


class ReadFrom(Enum):
    """What must be read of a thread to know a field, cheapest first."""

    INDEX = "index"
    HEAD = "head"
    SIZE = "size"
    STATE = "state"
    """The state at the head, and so the head, too."""


class FieldSpec(NamedTuple):
    """One field, as users see it."""

    kind: FieldKind
    summary: str
    source: ReadFrom = ReadFrom.INDEX

    is_whole: bool = False
    """Whether the name alone means something, too, where a path may follow."""

    @property
    def has_path(self) -> bool:
        """Whether the name may be followed by a path."""
        return self.kind is FieldKind.VALUE

    @property
    def needs_path(self) -> bool:
        """Whether the name must be followed by a path."""
        return self.has_path and not self.is_whole

    @property
    def operators(self) -> tuple[Operator, ...]:
        """The operators that make sense for this kind."""
        return _OPERATORS.get(self.kind, _ORDERED)


_ALL = tuple(Operator)
_ORDERED = tuple(one for one in Operator if one not in {Operator.LIKE, Operator.REGEX})
_OPERATORS: Mapping[FieldKind, tuple[Operator, ...]] = {
    FieldKind.TEXT: _ALL,
    FieldKind.VALUE: _ALL,
    FieldKind.STATUS: (Operator.EQUAL, Operator.UNEQUAL, Operator.IN),
}

FIELDS: Mapping[str, FieldSpec] = {
    "thread": FieldSpec(FieldKind.TEXT, "thread id"),
    "status": FieldSpec(FieldKind.STATUS, "any of the conditions of the thread", ReadFrom.HEAD),
    "next": FieldSpec(FieldKind.TEXT, "any of the nodes that run next", ReadFrom.HEAD),
    "error": FieldSpec(FieldKind.TEXT, "error that blocks the thread", ReadFrom.HEAD),
    "question": FieldSpec(
        FieldKind.VALUE, "first question that waits for an answer", ReadFrom.HEAD, is_whole=True
    ),
    "source": FieldSpec(
        FieldKind.TEXT, "how the head was made: input, loop, update, fork", ReadFrom.HEAD
    ),
    "step": FieldSpec(FieldKind.NUMBER, "step of the head", ReadFrom.HEAD),
    "age": FieldSpec(FieldKind.DURATION, "time since the oldest checkpoint"),
    "idle": FieldSpec(FieldKind.DURATION, "time since the newest checkpoint"),
    "first_at": FieldSpec(FieldKind.TIME, "time of the oldest checkpoint"),
    "last_at": FieldSpec(FieldKind.TIME, "time of the newest checkpoint"),
    "checkpoints": FieldSpec(FieldKind.NUMBER, "number of checkpoints"),
    "bytes": FieldSpec(FieldKind.SIZE, "stored size of the thread", ReadFrom.SIZE),
    "user": FieldSpec(FieldKind.TEXT, "user of the thread, in stores that record users"),
    "metadata": FieldSpec(FieldKind.VALUE, "metadata of the head", ReadFrom.HEAD),
    "values": FieldSpec(FieldKind.VALUE, "state at the head", ReadFrom.STATE),
}
"""In the order in which they are listed to users."""
METADATA, VALUES = "metadata", "values"


_MEANT: Mapping[str, str] = {
    **dict.fromkeys(("id", "thread_id", "name"), "thread"),
    **dict.fromkeys(("created", "created_at", "started", "first"), "first_at"),
    **dict.fromkeys(("updated", "updated_at", "modified", "last", "ts", "time"), "last_at"),
    **dict.fromkeys(("state", "conditions"), "status"),
    **dict.fromkeys(("size",), "bytes"),
    **dict.fromkeys(("node", "nodes"), "next"),
    **dict.fromkeys(("channel", "channels", "value", "messages"), "values.CHANNEL"),
    **dict.fromkeys(("errors", "exception", "failed"), "error"),
    **dict.fromkeys(("interrupt", "interrupts", "questions", "waiting"), "question"),
    **dict.fromkeys(("user_id", "owner", "tenant"), "metadata.KEY"),
}
"""What people may write for a field."""


def nearest_field(name: str) -> str | None:
    """Return the field that is probably meant by a name that is none; None if unknown."""
    written = name.lower()
    if written in _MEANT:
        return _MEANT[written]
    # Takes 3 ms, and is needed for a hint only.
    from difflib import get_close_matches

    return next(iter(get_close_matches(written, FIELDS, n=1)), None)


def field_names() -> str:
    """Return the names of all fields for a hint, such as `thread, ..., metadata.KEY`."""
    return ", ".join(f"{name}.KEY" if spec.needs_path else name for name, spec in FIELDS.items())
