"""Salted digests of ids, with which a receipt is verified without naming anyone.

Who has the receipt and guesses an id can still check the guess.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ckpt_backends.memory.protocol import ItemKey, Namespace

_SIZE = 20
"""Bytes of a digest."""
_SALT_SIZE = 16
_NAMES, _NEWER = ("threads", "namespaces", "items", "sessions"), ("archives", "names")
"""The keys of a record; receipts of the first releases lack the newer ones."""
_WORDS = re.compile(r"\w+")
_LONGEST_NAME = 8
"""Words of a name that is found in a text."""


@dataclass(slots=True)
class ErasedIds:
    """The digests of all that an erasure removed."""

    salt: str = field(default_factory=lambda: os.urandom(_SALT_SIZE).hex())
    threads: set[str] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    """Namespaces of long-term memory that were erased whole."""
    items: set[str] = field(default_factory=set)
    sessions: set[str] = field(default_factory=set)
    archives: set[str] = field(default_factory=set)
    """Archived threads of other stores."""
    names: set[str] = field(default_factory=set)
    """Texts that name the subject."""

    def digest(self, *parts: str) -> str:
        """Return the digest of an id."""
        from hashlib import blake2b  # late: it loads OpenSSL

        key, text = bytes.fromhex(self.salt), "\0".join((str(len(parts)), *parts))
        data = text.encode("utf-8", "surrogatepass")
        return blake2b(data, digest_size=_SIZE, key=key).hexdigest()

    def add_threads(self, thread_ids: Iterable[str]) -> None:
        """Add threads."""
        self.threads.update(self.digest("thread", one) for one in thread_ids)

    def add_namespaces(self, namespaces: Iterable[Namespace]) -> None:
        """Add namespaces."""
        self.namespaces.update(self.digest("namespace", *one) for one in namespaces)

    def add_items(self, keys: Iterable[ItemKey]) -> None:
        """Add items of long-term memory."""
        self.items.update(self.digest("item", *one.namespace, one.key) for one in keys)

    def add_sessions(self, keys: Iterable[str]) -> None:
        """Add sessions by their keys in the store."""
        self.sessions.update(self.digest("session", one) for one in keys)

    def add_archives(self, threads: Iterable[tuple[str, str]]) -> None:
        """Add archived threads, each with its store as the header of the archive names it."""
        self.archives.update(self.digest("archive", *one) for one in threads)

    def add_names(self, names: Iterable[str]) -> None:
        """Add texts that name the subject; upper and lower case are the same."""
        self.names.update(self.digest("name", one.casefold()) for one in names)

    def has_thread(self, thread_id: str | None) -> bool:
        """Return whether a thread was erased."""
        return thread_id is not None and self.digest("thread", thread_id) in self.threads

    def has_item(self, key: ItemKey) -> bool:
        """Return whether an item, or a namespace that it is in, was erased."""
        if self.digest("item", *key.namespace, key.key) in self.items:
            return True
        labels: Sequence[Namespace] = [key.namespace[:n] for n in range(1, len(key.namespace) + 1)]
        return bool(self.namespaces) and any(
            self.digest("namespace", *one) in self.namespaces for one in labels
        )

    def has_session(self, key: str) -> bool:
        """Return whether a session was erased."""
        return self.digest("session", key) in self.sessions

    def has_archive(self, thread_id: str, store: str) -> bool:
        """Return whether an archive of this thread of another store was erased."""
        return self.digest("archive", thread_id, store) in self.archives

    def has_name(self, text: str) -> bool:
        """Return whether some words in a row of a text name the subject."""
        if not self.names:
            return False
        folded = text.casefold()
        words = [one.span() for one in _WORDS.finditer(folded)]
        return any(
            self.digest("name", folded[first:last]) in self.names
            for number, (first, _) in enumerate(words)
            for _, last in words[number : number + _LONGEST_NAME]
        )

    def is_named_in(self, text: str) -> bool:
        """Return whether a text is the id of an erased thread, or names the subject."""
        return self.has_thread(text) or self.has_name(text)

    def merge(self, other: ErasedIds) -> None:
        """Add the digests of an earlier run with the same salt."""
        for name in (*_NAMES, *_NEWER):
            getattr(self, name).update(getattr(other, name))


def ids_record(ids: ErasedIds) -> dict[str, Any]:
    """Return digests as JSON."""
    return {"salt": ids.salt, **{name: sorted(getattr(ids, name)) for name in (*_NAMES, *_NEWER)}}


def ids_from_record(record: Any) -> ErasedIds:
    """Parse digests. Raises `ValueError`, `KeyError` or `TypeError`."""
    if len(bytes.fromhex(record["salt"])) != _SALT_SIZE:
        raise ValueError(record["salt"])
    found = {name: set(map(_hex, record[name])) for name in _NAMES}
    found |= {name: set(map(_hex, record.get(name, ()))) for name in _NEWER}
    return ErasedIds(str(record["salt"]), **found)


def _hex(text: object) -> str:
    if not isinstance(text, str) or len(bytes.fromhex(text)) != _SIZE:
        raise ValueError(text)
    return text
