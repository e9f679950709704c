"""Opens the store of a run for reading, and says how its values are shown and rebuilt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, Self, TypeVar

from ckpt_backends import errors
from ckpt_backends.base import WrappedStore, wrapper_of
from ckpt_backends.encryption import DecryptingStore, Keys, keys_of_environment, keys_of_file
from ckpt_backends.protocol import ScanObserver, Store
from ckpt_backends.registry import open_store
from ckpt_backends.url import StoreUrl
from ckpt_cli.core.redact import redact_metadata
from ckpt_cli.core.resume import UserMetadata, user_metadata
from ckpt_cli.core.users import UserKey
from ckpt_cli.reading.users import StoreWithUsers

if TYPE_CHECKING:
    from ckpt_backends.codec.values import Value
    from ckpt_cli.core.reducers import Rules
    from ckpt_cli.core.state import Body
    from ckpt_cli.reading.graphs import GraphPaths


class RedactedStore(WrappedStore):
    """A store with values that must not be shown."""


def is_redacted(store: Store) -> bool:
    """Return whether answers from a store must be redacted."""
    return isinstance(store, RedactedStore)


class Hidable(Protocol):
    """A record of an answer."""

    def redacted(self) -> Self:
        """Return it without values, and without texts that quote them."""


Record = TypeVar("Record", bound=Hidable)


def shown(store: Store, found: Record) -> Record:
    """Return a record as it may be shown."""
    return found.redacted() if is_redacted(store) else found


def refuse_raw(store: Store) -> None:
    """Raise `UsageError` if stored bytes would be shown although `--redact` is given."""
    if is_redacted(store):
        raise no_raw()


def no_raw() -> errors.UsageError:
    """Return the error for showing stored bytes together with `--redact`."""
    return errors.UsageError("--raw cannot be combined with --redact", hint="use one of them")


def carried_metadata(store: Store, metadata: Mapping[str, Value]) -> UserMetadata:
    """Return the metadata with which a graph resumes from a checkpoint, or from a copy of it."""
    return user_metadata(redact_metadata(metadata) if is_redacted(store) else metadata)


class RuledStore(WrappedStore):
    """A store of which the user told how values that are not stored are rebuilt."""

    def __init__(self, inner: Store, rules: Rules) -> None:
        super().__init__(inner)
        self.rules = rules


def rules_of(store: Store, body: Body) -> Rules:
    """Return what was told about a store, also if another wrapper is around it.

    `body` is of the checkpoint that is rebuilt: releases of LangGraph.js do not differ.
    """
    from ckpt_cli.core.reducers import JAVASCRIPT, NO_RULES

    ruled = wrapper_of(store, RuledStore)
    found = NO_RULES if ruled is None else ruled.rules
    return found._replace(library=JAVASCRIPT) if body.is_javascript else found


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


def is_passing(error: errors.StoreUnavailable) -> bool:
    """Return whether it may help to open the store again."""
    return not isinstance(error, errors.Unsupported | errors.UnknownLayout | errors.Unreadable)


class Opening(NamedTuple):
    """Which store to open, and how its values are shown."""

    url: StoreUrl
    aes_key_file: str | None = None
    """File with the keys for encrypted values; None to use those of the environment."""
    redact: bool = False
    rules: Rules | None = None
    """How values that are not stored are rebuilt; None if nothing was told."""
    as_of: datetime | None = None
    """The moment as of which it is read; None for now."""
    user_key: UserKey | None = None
    """Where the users of threads are named; None to find it."""
    graphs: GraphPaths | None = None
    """Which graph is to be deployed; None if nothing was told."""

    def open(
        self, note: Callable[[str], None], observer: Callable[[], ScanObserver] | None = None
    ) -> Store:
        """Open the store; calls `note` if values cannot be decrypted.

        `observer` returns who is told about scans; it is called only if the store needs scans.

        Raises `UsageError`, `StoreUnavailable` or `UnknownLayout`; with `as_of` also `Unsupported`.
        """
        store: Store = DecryptingStore(open_store(self.url), self.keys(), note)
        if observer is not None and store.lists_by_scan:
            store.observe_scans(observer())
        if self.as_of is not None:
            # Late: few runs look back.
            from ckpt_cli.reading.earlier import EarlierStore

            store = EarlierStore(store, self.as_of)
        store = StoreWithUsers(store, self.user_key)
        if self.graphs is not None:
            from ckpt_cli.reading.graphs import StoreWithGraphs  # late: few runs judge

            store = StoreWithGraphs(store, self.graphs)
        if self.rules is not None:
            store = RuledStore(store, self.rules)
        return RedactedStore(store) if self.redact else store

    def keys(self) -> Keys:
        """Return a function that returns the keys for encrypted values."""
        if self.aes_key_file is None:
            return keys_of_environment
        keys = keys_of_file(self.aes_key_file)
        return lambda: keys
