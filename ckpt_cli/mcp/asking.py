"""One call of a tool: the store as the agent may see it, and the arguments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ckpt_backends.errors import UsageError
from ckpt_backends.protocol import Store
from ckpt_cli.api.checkpoint import CheckpointHandle
from ckpt_cli.api.filters import filter_of
from ckpt_cli.api.store import StoreHandle
from ckpt_cli.api.surroundings import Surroundings
from ckpt_cli.api.thread import ThreadHandle
from ckpt_cli.api.watch import Watcher
from ckpt_cli.core.filters.expressions import fields_in
from ckpt_cli.mcp.pages import Item
from ckpt_cli.mcp.parameters import PAGING, Parameter, object_schema
from ckpt_cli.threads.redaction import RedactedStore

_TELLING = frozenset({"error", "question", "user", "metadata", "values"})
"""The fields of a filter that tell something of the values they are compared with."""
OPEN_HINT = "the person who started the server can show values: ckpt mcp --values, or --channels"


@dataclass(frozen=True, slots=True)
class Permission:
    """Which values the agent may see."""

    values: bool = False
    """All values, errors, questions and metadata."""
    channels: Collection[str] = ()
    """Without `values`: the values of these channels only."""

    def allows(self, channels: Collection[str]) -> bool:
        """Return whether all of these channels may be shown; at least one."""
        return self.values or (bool(channels) and set(channels) <= set(self.channels))


class SeenStore:
    """An open store: `handle` hides values unless they may be shown, `whole` hides nothing."""

    def __init__(self, store: Store, around: Surroundings, allowed: Permission) -> None:
        self.allowed = allowed
        self.whole = StoreHandle(store, around)
        self.handle = self.whole if allowed.values else StoreHandle(RedactedStore(store), around)
        self.around = around

    def close(self) -> None:
        """Close the connection or the file."""
        self.handle.close()

    def refresh(self) -> None:
        """See what was saved since the store was opened or last refreshed."""
        self.handle.refresh()

    def showing(self, channels: Collection[str]) -> StoreHandle:
        """Return the store to read these channels from: with their values if they are allowed."""
        return self.whole if self.allowed.allows(channels) else self.handle


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of a tool."""

    store: SeenStore
    arguments: Mapping[str, Any]
    watch: Watcher
    """Gets what long work looks at; raises `Stopped` if the answer is not wanted any more."""

    def get(self, name: str, default: Any = None) -> Any:
        """Return an argument, or the default if it was left out."""
        found = self.arguments.get(name)
        return default if found is None else found

    @property
    def where(self) -> list[str]:
        """The filters: one or none. Raises `UsageError` if one would tell hidden values."""
        text = self.get("where")
        if text and not self.store.allowed.values:
            found = filter_of(self.store.around, text)
            for field in () if found is None else fields_in(found):
                channel = field.path[0] if field.name == "values" and field.path else None
                if field.name in _TELLING and channel not in self.store.allowed.channels:
                    raise UsageError(
                        f"this server hides values, so it cannot filter by '{field.name}'",
                        hint=OPEN_HINT,
                    )
        return [text] if text else []

    def thread(self, store: StoreHandle | None = None) -> ThreadHandle:
        """Return the thread that is named. Raises `NotFound`."""
        return (store or self.store.handle).thread(self.arguments["thread"])

    def checkpoint(self, store: StoreHandle | None = None, ref: str = "ref") -> CheckpointHandle:
        """Return the checkpoint that is named. Raises `NotFound` or `Ambiguous`."""
        return self.thread(store).at(self.get(ref, "head"), ns=self.get("ns"))


@dataclass(frozen=True, slots=True)
class Tool:
    """What an agent can ask."""

    name: str
    title: str
    about: str
    """What it answers and when to use it, for the model that makes the call."""
    parameters: Mapping[str, Parameter]
    answer: Callable[[Asked], Iterable[Item]]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        return object_schema({**self.parameters, **PAGING})
