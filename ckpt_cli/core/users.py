"""Where an application names the user of a thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ckpt_backends.errors import NotFound, UsageError
from ckpt_cli.core.values import Path, format_path, parse_path, select

if TYPE_CHECKING:
    from ckpt_backends.codec.values import Value

_METADATA, _VALUES = "metadata", "values"
_USUAL = (
    "user_id",
    "langgraph_auth_user_id",
    "user",
    "userId",
    "username",
    "owner",
    "owner_id",
    "customer_id",
    "account_id",
    "tenant",
    "tenant_id",
)
"""Keys of metadata under which applications name the user of a thread; the first that is found is
taken. LangGraph's server writes `langgraph_auth_user_id`."""
_LARGEST_ID = 2**63


class UserKey(NamedTuple):
    """Where the user of a thread is named."""

    root: str
    """`metadata`, or `values` for a channel of the state."""
    path: Path
    """Begins with the key, or with the channel."""
    why: str
    """Who told it, or in how many heads it was found."""

    @property
    def name(self) -> str:
        """The field as a filter has it, such as `metadata.user_id`."""
        return f"{self.root}.{format_path(self.path)}"

    @property
    def is_channel(self) -> bool:
        """Whether it is a channel of the state, and not a key of the metadata."""
        return self.root == _VALUES

    @property
    def first(self) -> str:
        """The key of the metadata, or the channel."""
        return str(self.path[0])


def parse_user_key(text: str, why: str) -> UserKey:
    """Return the setting that a text means. Raises `UsageError`."""
    root, dot, rest = text.partition(".")
    if root not in {_METADATA, _VALUES} or not dot or not rest:
        raise UsageError(
            f"'{text}' is no place of a user", hint="write metadata.KEY or values.CHANNEL"
        )
    return UserKey(root, parse_path(rest), why)


def usual_key(heads: Sequence[Mapping[str, Value]]) -> UserKey | None:
    """Return the first of the usual keys that most of these metadata have, if there is one."""
    for name in _USUAL:
        having = sum(_text(one.get(name)) is not None for one in heads)
        if having * 2 > len(heads):
            why = f"{having} of {len(heads)} heads have it"
            return UserKey(_METADATA, (name,), why)
    return None


def user_in(root: Mapping[str, Value], key: UserKey) -> str | None:
    """Return the user that metadata or values name."""
    try:
        found = select(dict(root.items()), key.path)
    except NotFound:
        return None
    return next(filter(None, (_text(one.value) for one in found)), None)


def _text(value: Value) -> str | None:
    """Return a text, or a number as one, as the name of a user; None for any other value."""
    if isinstance(value, str):
        return value or None
    is_id = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST_ID
    return str(value) if is_id else None
