"""What an erasure removes, place by place. Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from ckpt_backends.app_sessions import AppSession
from ckpt_backends.errors import CkptError, UnknownLayout, Unsupported
from ckpt_backends.memory.protocol import Item, MemoryStore
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_sessions
from ckpt_backends.url import StoreUrl
from ckpt_cli.core.erasure.places import ErasurePlace, Mention, PlaceKind
from ckpt_cli.core.erasure.scope import ErasureScope
from ckpt_cli.core.retention.purge_plan import PlannedRemoval
from ckpt_cli.plans.purge import plan_named

DRY_RUN = "dry run"


@dataclass(frozen=True, slots=True)
class MemoryErasure:
    """The items of one memory that are erased."""

    url: StoreUrl
    layout: str
    items: Sequence[Item]
    """Without values."""
    warning: str = ""
    """Why the application should be stopped first; `''` if there is no reason."""


@dataclass(frozen=True, slots=True)
class ArchiveErasure:
    """One archive that is erased, or written anew without some rows."""

    path: Path
    bytes: int
    drops: frozenset[int] | None = None
    """The numbers of the rows that go, for an archive of memory; None if the file goes."""
    thread: tuple[str, str] | None = None
    """The archived thread and its store, as the header names them; None for an archive of memory,
    and for what a killed run left.
    """


@dataclass(frozen=True, slots=True)
class StateErasure:
    """What `ckpt` itself recorded about erased threads."""

    folder: str = ""
    """The folder of the log of operations."""
    lines: int = 0
    """Lines of the log of operations that name them."""
    bytes: int = 0
    operations: frozenset[str] = frozenset()
    """The operations whose steps are erased."""
    steps: Sequence[Path] = ()
    """The files with these steps."""
    repairs: Sequence[Path] = ()
    """Records of repaired values."""
    history: Sequence[Path] = ()
    """The history of `ckpt sql`, if a query names them."""
    audited: int = 0
    """Lines of the audit file that name them; they stay."""

    @property
    def number(self) -> int:
        """Number of operations that name them, or that an earlier run had begun to erase."""
        return max(self.lines, len(self.steps))

    @property
    def is_empty(self) -> bool:
        """Whether nothing names them that could be erased."""
        return not (self.lines or self.steps or self.repairs or self.history)


@dataclass(slots=True)
class ErasurePlan:
    """All that an erasure removes."""

    url: StoreUrl
    store: str
    """The URL without secrets."""
    scope: ErasureScope
    threads: Sequence[PlannedRemoval] = ()
    memories: list[MemoryErasure] = field(default_factory=list)
    sessions: Sequence[AppSession] = ()
    archives: Sequence[ArchiveErasure] = ()
    folders: Sequence[Path] = ()
    """The folders that were looked through for archives and saved plans."""
    plan_files: Sequence[Path] = ()
    state: StateErasure = field(default_factory=StateErasure)
    unread: list[ErasurePlace] = field(default_factory=list)
    """Places that could not be read."""
    mentions: list[Mention] = field(default_factory=list)
    has_more_mentions: bool = False
    unsearched: int = 0
    """Number of values that could not be searched for mentions."""

    def missed(self, number: int) -> None:
        """Count values that could not be searched."""
        self.unsearched += number

    @property
    def is_empty(self) -> bool:
        """Whether nothing was found, and no earlier run has to be finished."""
        return not (self.found() or self.scope.earlier is not None)

    def places(self) -> list[ErasurePlace]:
        """Return the places as a dry run prints them: what was found, and what stays."""
        return [*self.found(), *self.unread]

    def found(self) -> list[ErasurePlace]:
        """Return the places with what was found in them."""
        found = [
            _place(
                self.store,
                "threads",
                len(self.threads),
                sum(one.bytes for one in self.threads),
            ),
            *(
                _place(str(one.url), "memory", len(one.items), sum(item.size for item in one.items))
                for one in self.memories
            ),
            _place(
                self.store,
                "sessions",
                len(self.sessions),
                sum(one.size for one in self.sessions),
            ),
            *_of_folders("archives", ((one.path, one.bytes) for one in self.archives)),
            *_of_folders("plans", ((one, file_size(one)) for one in self.plan_files)),
            _place(self.state.folder, "operations", self.state.number, self.state.bytes),
            *_of_folders("queries", ((one, file_size(one)) for one in self.state.history)),
            *_of_folders("repairs", ((one, file_size(one)) for one in self.state.repairs)),
        ]
        return [one for one in found if one.items]


def file_size(path: Path) -> int:
    """Return the size of a file; 0 if it is gone."""
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _place(store: str, kind: PlaceKind, items: int, size: int) -> ErasurePlace:
    return ErasurePlace(store, kind, items, size, "kept", DRY_RUN)


def _of_folders(kind: PlaceKind, files: Iterable[tuple[Path, int]]) -> list[ErasurePlace]:
    """Return one place for each folder: the names of archives hold ids of threads."""
    sums: dict[Path, tuple[int, int]] = {}
    for path, size in files:
        number, total = sums.get(path.parent, (0, 0))
        sums[path.parent] = number + 1, total + size
    return [_place(str(folder), kind, *one) for folder, one in sums.items()]


def plan_threads(store: Store, scope: ErasureScope, why: str) -> list[PlannedRemoval]:
    """Return the threads of a scope that have any row."""
    found = plan_named(store, dict.fromkeys(sorted(scope.threads), why))
    return [one for one in found if one.action == "remove"]


def plan_memory(url: StoreUrl, memory: MemoryStore, scope: ErasureScope) -> MemoryErasure:
    """Return the items that are the person's or came from an erased thread."""
    items: list[Item] = []
    needs_values = scope.has_threads
    if needs_values or scope.earlier is not None:
        items = [_bare(one) for one in memory.items(values=True) if scope.has_item(one)]
    else:
        for namespace in scope.namespaces:
            items += map(_bare, memory.items(prefix=namespace))
    info = memory.describe()
    return MemoryErasure(url, info.layout, items, info.needs_write)


def _bare(item: Item) -> Item:
    return replace(item, value=None)


def all_sessions(url: StoreUrl) -> Sequence[AppSession]:
    """Return the sessions of a store; none if applications store none in it.

    Raises `StoreUnavailable`.
    """
    try:
        with open_sessions(url) as sessions:
            return list(sessions.sessions())
    except (Unsupported, UnknownLayout):
        return []


def unread_place(store: str, kind: PlaceKind, error: CkptError) -> ErasurePlace:
    """Return the place for something that could not be read."""
    return ErasurePlace(store, kind, None, None, "kept", error.message, is_left=True)


def unknown_place(
    store: str, kind: PlaceKind, items: int | None, size: int | None, reason: str
) -> ErasurePlace:
    """Return the place for something that may be of the subject and was not looked at."""
    return ErasurePlace(store, kind, items, size, "kept", reason, is_left=True, is_unknown=True)
