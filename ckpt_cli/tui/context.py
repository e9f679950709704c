"""State that all screens share: the store, its name, its connections and the time."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from time import monotonic
from typing import Any

from ckpt_backends.errors import CkptError
from ckpt_backends.files import make_private_folder, read_regular, writing
from ckpt_backends.memory import MemoryStore
from ckpt_backends.protocol import ScanObserver, Store
from ckpt_backends.registry import open_memory
from ckpt_backends.url import StoreUrl
from ckpt_cli.config.machine import state_folder
from ckpt_cli.core.filters import FilterAlias, FilterTerms, no_alias
from ckpt_cli.core.times import parse_time
from ckpt_cli.reading.store import Opening
from ckpt_cli.reading.store_worker import StoreWorker
from ckpt_cli.render.text import Ui


@dataclass(frozen=True, slots=True)
class CheckRules:
    """How threads are checked."""

    reducers: Mapping[str, str] = field(default_factory=dict)
    """The reducers that the user named, by channel."""
    ignored: frozenset[str] = frozenset()
    """Codes that are not reported."""


_PATIENCE = 1.0
"""Seconds to wait for connections on exit."""
_FAILURES = 10


@dataclass(frozen=True, slots=True)
class MemoryNamed:
    """The long-term memory of some threads."""

    url: StoreUrl
    words: Sequence[str]
    """The options that name it on a command line."""

    @property
    def name(self) -> str:
        """The value for `--memory`."""
        return self.words[-1] if self.words else str(self.url)


class ScanStatus(ScanObserver):
    """What the status line says about a scan of the store."""

    def __init__(self) -> None:
        self.text = ""
        self.changed: Callable[[], None] = lambda: None
        """Called in the thread of the worker."""

    def scanning(self, label: str, done: int, total: int | None) -> None:
        of = "" if total is None else f" of about {max(done, total):,}"
        self._show(f"{label}: {done:,}{of}")

    def scanned(self, report: str) -> None:
        self._show(report)

    def _show(self, text: str) -> None:
        self.text = text
        # The screen may be gone.
        with suppress(RuntimeError):
            self.changed()


class ScreenContext:
    """One store with a separate connection for each kind of query, so that none waits for another.

    Each connection is opened when it is first needed.
    """

    def __init__(
        self,
        opening: Opening,
        store_words: Sequence[str],
        zone: tzinfo,
        pause: float,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        memory: MemoryNamed | None = None,
        rules: CheckRules | None = None,
        audit: Path | None = None,
        alias: Callable[[str], FilterAlias] = no_alias,
    ) -> None:
        self.opening = opening
        self.store_words = store_words
        """The options that name the store on a command line."""
        self.zone = zone
        self.pause = pause
        """Seconds between two refreshes; 0 to refresh only on request."""
        as_of = opening.as_of
        self.now = now if as_of is None else lambda: as_of
        """The time from which ages are counted."""
        self.memory_named = memory or MemoryNamed(opening.url, store_words)
        self.rules = rules or CheckRules()
        self.audit = audit
        """A file to which changes are appended as well."""
        self._alias = alias
        self.scan = ScanStatus()
        self.failures: deque[Exception] = deque(maxlen=_FAILURES)
        """The last errors, for --debug."""

        self._clock = now

        def connect() -> Store:
            return opening.open(lambda _: None, lambda: self.scan)

        workers = [StoreWorker[Store](connect, self.failures) for _ in range(6)]
        self.threads, self.heads, self.tree, self.detail, self.searching, self.checking = workers
        self.memory = StoreWorker[MemoryStore](
            lambda: open_memory(self.memory_named.url), self.failures
        )
        self.workers: Sequence[StoreWorker[Any]] = (*workers, self.memory)

    def at(self, moment: datetime | None) -> ScreenContext:
        """Return the same store as it was at a moment; None for now. The caller closes this one."""
        return ScreenContext(
            self.opening._replace(as_of=moment),
            self.store_words,
            self.zone,
            self.pause,
            self._clock,
            self.memory_named,
            self.rules,
            self.audit,
            self._alias,
        )

    def time(self, text: str) -> datetime | None:
        """Return the time that a person typed; None for an empty text. Raises `UsageError`."""
        return parse_time(text.strip(), self._clock(), self.zone) if text.strip() else None

    def ui(self, width: int) -> Ui:
        """Return what an answer is drawn for, in a pane of this width."""
        return Ui(self.now(), self.zone, max(width, 1))

    def filter_terms(self) -> FilterTerms:
        """Return how filters are read now."""
        return FilterTerms(self._alias, self.now(), self.zone)

    def leave(self) -> None:
        """Close each connection after its last query, without waiting for that."""
        for worker in self.workers:
            worker.close()

    def close(self) -> None:
        """Close all connections, without waiting long for a running query."""
        self.leave()
        until = monotonic() + _PATIENCE
        for worker in self.workers:
            worker.join(max(until - monotonic(), 0))


_LONGEST = 4096


@dataclass(frozen=True, slots=True)
class RememberedLook:
    """How the screen looked when it was left."""

    theme: str = ""
    """The name of a theme of Textual; empty for the default one."""
    sort: str = ""
    tab: str = ""
    is_unfolded: bool = False
    """Whether long runs of steps are unfolded."""
    is_zoomed: bool = False
    threads_share: int = 0
    """Percent of the columns for the threads; 0 to fit them to their content."""
    tree_share: int = 0
    """Percent for the tree of what it shares with the checkpoint; 0 to fit it."""


def look_file() -> Path | None:
    """Return where the look is remembered; None if this user has no state folder."""
    with suppress(CkptError):
        return state_folder("screen") / "look.json"
    return None


def read_look(path: Path) -> RememberedLook:
    """Return the remembered look; the default where the file says nothing that can be used."""
    try:
        found = json.loads(read_regular(path, _LONGEST))
    except (OSError, ValueError, RecursionError, CkptError):
        return RememberedLook()
    if not isinstance(found, dict):
        return RememberedLook()
    default = asdict(RememberedLook())
    usable = {key: found[key] for key in default if type(found.get(key)) is type(default[key])}
    values: dict[str, Any] = default | usable
    return RememberedLook(**values)


def write_look(path: Path, look: RememberedLook) -> None:
    """Remember a look, in a file that only this user can read."""
    with suppress(OSError, CkptError):
        make_private_folder(path.parent)
        with writing(path) as file:
            file.write(json.dumps(asdict(look)).encode())
