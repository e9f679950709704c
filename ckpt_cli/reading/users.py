"""Whose a thread is: the setting that says where its user is named, told or found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from ckpt_backends.base import WrappedStore, wrapper_of
from ckpt_backends.model import CheckpointKey, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.state import read_body, read_metadata
from ckpt_cli.core.users import UserKey, user_in, usual_key

if TYPE_CHECKING:
    from ckpt_backends.codec.values import Value
    from ckpt_cli.core.filters import Filter

_SAMPLED = 20
"""Number of newest threads in whose heads the usual keys are looked for."""


class StoreWithUsers(WrappedStore):
    """A store of which it can be told whose its threads are."""

    def __init__(self, inner: Store, told: UserKey | None) -> None:
        """`told` is where users are named; None to find it."""
        super().__init__(inner)
        self._key = told
        self._is_known = told is not None or inner.records_users

    def key_among(self, heads: Iterable[Mapping[str, Value]]) -> UserKey | None:
        """Return where users are named; if this is not known yet, learn it from these metadata.

        If these do not tell, since they may be those of a few chosen threads, the newest ones do.
        None if the layout records users, or if none of these metadata tell.
        """
        if not self._is_known and (sampled := list(islice(heads, _SAMPLED))):
            self._key = usual_key(sampled)
            self._is_known = self._key is not None
        return self.user_key

    @property
    def user_key(self) -> UserKey | None:
        """The same; learns it from the heads of the newest threads.

        A store that lists by scans is not looked through for it.
        """
        if self._is_known or self.inner.lists_by_scan:
            return self._key
        newest = self.inner.threads(limit=_SAMPLED)
        keys = [CheckpointKey(one.thread_id, "", one.head) for one in newest if one.head]
        found = self.inner.checkpoints_at(keys, metadata=True)
        self._key, self._is_known = usual_key(list(map(read_metadata, found))), True
        return self._key


def user_key_of(store: Store) -> UserKey | None:
    """Return where the users of a store's threads are named; None if that is not known."""
    found = wrapper_of(store, StoreWithUsers)
    return None if found is None else found.user_key


def users_of_threads(
    store: Store, threads: Iterable[Thread], key: UserKey | None = None
) -> dict[str, str]:
    """Return the users of some threads by thread id: as the layout records them, or as their
    newest checkpoints say. `key` asks for another key instead.
    """
    if store.records_users and key is None:
        return {one.thread_id: one.user for one in threads if one.user is not None}
    places = [CheckpointKey(one.thread_id, "", one.head) for one in threads if one.head]
    if not places:
        return {}
    heads = {
        one.key.thread_id: read_metadata(one) for one in store.checkpoints_at(places, metadata=True)
    }
    return users_of(store, heads, key)


def users_of(
    store: Store, heads: Mapping[str, Mapping[str, Value]], key: UserKey | None = None
) -> dict[str, str]:
    """Return the users of some threads by thread id; `heads` are the metadata of their heads.

    What a head lacks is taken from the newest checkpoint that has it: a run may have been resumed
    without the metadata of the run before.
    """
    if key is None and (known := wrapper_of(store, StoreWithUsers)) is not None:
        key = known.key_among(heads.values())
    if key is None:
        return {}
    if key.is_channel:
        found = dict(_in_states(store, key, heads))
    else:
        found = {name: user_in(metadata, key) for name, metadata in heads.items()}
        without = [name for name, metadata in heads.items() if key.first not in metadata]
        for name, metadata in inherited(store, without, key.first).items():
            found[name] = user_in(metadata, key)
    return {name: user for name, user in found.items() if user is not None}


def inherited(store: Store, thread_ids: Sequence[str], key: str) -> dict[str, Mapping[str, Value]]:
    """Return by thread id the metadata of the newest checkpoint that has a key, where one does."""
    found = store.metadata_with(thread_ids, key, newest=True) if thread_ids else ()
    return {one.key.thread_id: read_metadata(one) for one in found}


def _in_states(
    store: Store, key: UserKey, thread_ids: Iterable[str]
) -> Iterable[tuple[str, str | None]]:
    """Yield threads with the users that a channel names at their heads."""
    threads = (store.thread(one) for one in thread_ids)
    keys = [CheckpointKey(one.thread_id, "", one.head) for one in threads if one and one.head]
    for one in store.checkpoints_at(keys, body=True, values=[key.first]) if keys else ():
        yield one.key.thread_id, user_in(read_body(one).values, key)


def filter_with_users(store: Store, wanted: Filter) -> Filter:
    """Return a filter that asks for `user` where the threads of a store name it."""
    from ckpt_cli.core.filters import FilterField, asking, fields_in

    if all(one.name != "user" for one in fields_in(wanted)):
        return wanted
    key = user_key_of(store)
    return wanted if key is None else asking(wanted, "user", FilterField(key.root, key.path))
