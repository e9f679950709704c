"""Opens the store of a run for reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from ckpt_backends.encryption import DecryptingStore, Keys, keys_of_environment, keys_of_file
from ckpt_backends.errors import StoreUnavailable, UnknownLayout, Unreadable, Unsupported
from ckpt_backends.model import CheckpointKey, Expiry
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_backends.url import StoreUrl
from ckpt_cli.reading.thread import ThreadReader

if TYPE_CHECKING:
    from ckpt_backends.scan_observer import ScanObserver
    from ckpt_cli.core.reducers import Rules


_SAME = timedelta(seconds=2)
"""Savers set the expiry of rows that belong together one after the other, so small gaps are
ignored.
"""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """When a checkpoint expires, and what expires before it."""

    at: datetime | None
    """None if the checkpoint does not expire."""
    writes_at: datetime | None = None
    """When its writes expire, if that is earlier."""
    ancestor: str | None = None
    """The ancestor that expires first, if that is earlier."""
    ancestor_at: datetime | None = None

    @property
    def remarks(self) -> Sequence[str]:
        """The consequences, as sentences for the user."""
        found = []
        if self.writes_at is not None:
            found.append(
                "its writes expire first: what its tasks had done is then done again on a resume"
            )
        if self.ancestor is not None:
            found.append(
                f"its ancestor {self.ancestor} expires first: then there is no way back to it,"
                " and what is rebuilt from its writes is gone"
            )
        return found


def lifetime(reader: ThreadReader, key: CheckpointKey) -> Lifetime | None:
    """Return how long a checkpoint remains usable; None if nothing of it expires."""
    if not reader.store.keys_expire:
        return None
    ancestors = reader.ancestry(key.checkpoint_ns, key.checkpoint_id)[1:]
    known = _of(reader.store, key, [key.checkpoint_id, *ancestors])
    own = known.get(key.checkpoint_id)
    if own is None or all(one.at is None and one.writes_at is None for one in known.values()):
        return None
    times = [
        (at, name)
        for name in ancestors
        if name in known and (at := known[name].at) is not None and _is_before(at, own.at)
    ]
    first_at, first = min(times, default=(None, None))
    writes_at = own.writes_at if _is_before(own.writes_at, own.at) else None
    return Lifetime(own.at, writes_at, first, first_at)


def _of(store: Store, key: CheckpointKey, ids: Sequence[str]) -> dict[str, Expiry]:
    found = store.expiries(key.thread_id, key.checkpoint_ns, ids)
    return {one.key.checkpoint_id: one for one in found}


def _is_before(one: datetime | None, other: datetime | None) -> bool:
    return one is not None and (other is None or one < other - _SAME)


class _Kept(Protocol):
    """A store of threads or of long-term memory."""

    def refresh(self) -> None: ...

    def close(self) -> None: ...


Kept = TypeVar("Kept", bound=_Kept)


class LiveStore(Generic[Kept]):
    """A store that is opened when it is needed, and again after `drop`."""

    def __init__(self, open_store: Callable[[], Kept], given: Kept | None = None) -> None:
        """`given` is used first, if there is one; it stays open."""
        self._open_store = open_store
        self._given = self._store = given

    @property
    def store(self) -> Kept:
        """The store. Raises what opening it raises."""
        if self._store is None:
            self._store = self._open_store()
        return self._store

    def drop(self) -> None:
        """Close the store if it was opened here; the next use opens it again."""
        if self._store is not None and self._store is not self._given:
            with suppress(Exception):
                self._store.close()
        self._store = None


def is_passing(error: StoreUnavailable) -> bool:
    """Return whether it may help to open the store again."""
    return not isinstance(error, Unsupported | UnknownLayout | Unreadable)


class Opening(NamedTuple):
    """Which store to open, and how its values are shown."""

    url: StoreUrl
    aes_key_file: str | None = None
    """File with the keys for encrypted values; None to use those of the environment."""
    redact: bool = False
    rules: Rules | None = None
    """How values that are not stored are rebuilt; None if nothing was told."""

    def open(
        self, note: Callable[[str], None], observer: Callable[[], ScanObserver] | None = None
    ) -> Store:
        """Open the store; calls `note` if values cannot be decrypted.

        `observer` returns who is told about scans; it is called only if the store needs scans.

        Raises `UsageError`, `StoreUnavailable` or `UnknownLayout`.
        """
        store: Store = DecryptingStore(open_store(self.url), self.keys(), note)
        if observer is not None and store.lists_by_scan:
            store.observe_scans(observer())
        if self.rules is not None:
            from ckpt_cli.reading.states import RuledStore

            store = RuledStore(store, self.rules)
        if not self.redact:
            return store
        from ckpt_cli.reading.redaction import RedactedStore

        return RedactedStore(store)

    def keys(self) -> Keys:
        """Return a function that returns the keys for encrypted values."""
        if self.aes_key_file is None:
            return keys_of_environment
        keys = keys_of_file(self.aes_key_file)
        return lambda: keys
