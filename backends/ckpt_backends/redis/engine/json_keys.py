"""Finds the keys of threads that consist of JSON documents, and checks archived ones.

A document names its thread, and its key must be the key that the saver gives such a document. All
other keys must be those of a namespace or checkpoint of the thread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ckpt_backends.changes.rows import Row, not_of
from ckpt_backends.errors import Refused
from ckpt_backends.model import Capability, CheckpointKey
from ckpt_backends.redis.engine.archived_keys import namespace_of, parted, rest_of, row_name
from ckpt_backends.redis.engine.document_fields import LISTS, USUAL, meant_ns, stored_forms
from ckpt_backends.redis.engine.json_documents import JsonDocuments
from ckpt_backends.redis.engine.keyspace import (
    APART,
    CHECKPOINT,
    DOCUMENT,
    STRING,
    ZSET,
    CheckpointKeys,
    raw,
    text,
    unique,
)
from ckpt_backends.redis.engine.layout import KeyFinder
from ckpt_backends.redis.engine.row_cells import MEMBER

POINTERS, REGISTRIES = "checkpoint_latest", "write_registry"
"""The kinds of the keys that name a namespace's head, and of those that list its writes."""
_PLACE_IN_LIST = re.compile(r"[^:]*:[^:]*:[^:]*")
"""The end of a write's key: checkpoint id, task id and idx."""


class DocumentFinder(KeyFinder[JsonDocuments]):
    """Finds the keys of threads that consist of JSON documents."""

    kind_of_writes = "checkpoint_write"
    types: Mapping[str, str] = {
        CHECKPOINT: DOCUMENT,
        kind_of_writes: DOCUMENT,
        LISTS: ZSET,
        REGISTRIES: ZSET,
        POINTERS: STRING,
        APART: DOCUMENT,
    }

    def _keys_of(self, key: CheckpointKey, *, is_there: bool) -> CheckpointKeys:
        # In shallow layouts, all checkpoints of a namespace have the same key. In others,
        # `put_writes` may have created the key even if the checkpoint was never stored.
        has_key = is_there or Capability.HISTORY in self.layout.capabilities
        names = {
            self.kind_of_writes: [],
            LISTS: self.layout.lists(key),
            CHECKPOINT: [self.layout.checkpoint_name(key)] if has_key else [],
        }
        return CheckpointKeys(key, names, is_there)

    def _shared(self, thread_id: str, ns: str) -> dict[str, list[bytes]]:
        return self.layout.pointers(thread_id, ns)

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        return _Archived(self.layout, self.types, thread_id).checked(rows)


class _Archived:
    """The keys of a thread in an archive, as far as they were read."""

    def __init__(self, layout: JsonDocuments, types: Mapping[str, str], thread_id: str) -> None:
        self._layout, self._types, self._thread_id = layout, types, thread_id
        self._thread = layout.stored_thread(thread_id)
        self._spaces: set[str] = set()
        self._there: set[tuple[str, str]] = set()
        """Namespaces and checkpoints that a document names."""
        self._listed: set[tuple[str, str]] = set()
        """Checkpoints whose key is in the archive, but may be of another thread."""
        self._pointed: set[str] = set()

    def checked(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows. Raises `Refused` unless all are keys of the thread."""
        for row in rows:
            name = row_name(row, self._types)
            if self._types[row.table] == DOCUMENT:
                self._check_document(row, name)
            elif row.table == POINTERS:
                self._check_pointer(row, name)
            else:
                self._check_list(row, name)
            yield row
        if self._listed - self._there or self._pointed - self._spaces:
            raise Refused(f"it has keys that no document of thread '{self._thread_id}' belongs to")

    def _check_document(self, row: Row, name: str) -> None:
        document = _document(row)
        if row.table == CHECKPOINT and "thread_id" not in document:
            # `put_writes` stores `{"has_writes": true}` if there is no checkpoint yet.
            start = f"{self._layout.prefixes.checkpoint}:{self._thread}:"
            ns, own = parted(row, name, start, meant_ns)
            self._listed.add((meant_ns(ns), own))
            return
        stored = document.get("thread_id")
        if not isinstance(stored, str) or self._layout.meant_thread(stored) != self._thread_id:
            raise not_of(row.table, stored, self._thread_id)
        ns = meant_ns(_text(row, document, "checkpoint_ns"))
        self._spaces.add(namespace_of(row, ns))
        if row.table != APART:
            self._there.add((ns, _text(row, document, "checkpoint_id")))
        if name not in self._names(row, document):
            raise Refused(f"a document of '{row.table}' has the key of another one: {name}")

    def _names(self, row: Row, document: Mapping[str, Any]) -> Iterator[str]:
        """The keys that this document may have. A namespace has two forms."""
        if row.table == CHECKPOINT:
            name = self._layout.name_of(document)
            yield from () if name is None else (text(name),)
            return
        start, parts = self._layout.prefixes.write, ["checkpoint_id", "task_id", "idx"]
        if row.table == APART:
            start, parts = APART, ["channel", "version"]
        for ns in stored_forms(document["checkpoint_ns"]):
            rest = (str(document.get(part, "")) for part in parts)
            yield ":".join((start, document["thread_id"], ns, *rest))

    def _check_list(self, row: Row, name: str) -> None:
        """Check that a list of writes names only writes of one namespace."""
        of_namespace = row.table == REGISTRIES
        end = "shallow" if of_namespace else None
        ns, own = parted(row, name, f"{row.table}:{self._thread}:", meant_ns, end)
        if of_namespace:
            self._pointed.add(meant_ns(ns))
        else:
            self._listed.add((meant_ns(ns), own))
        start = f"{MEMBER}{self._layout.prefixes.write}:{self._thread}:"
        starts = tuple(f"{start}{one}:" for one in stored_forms(ns))
        for member in row.cells:
            if member.startswith(MEMBER):
                rest = next((member[len(one) :] for one in starts if member.startswith(one)), None)
                if (
                    rest is None
                    or not _PLACE_IN_LIST.fullmatch(rest)
                    or not (of_namespace or rest.startswith(f"{own}:"))
                ):
                    raise Refused(f"a row of '{row.table}' names a write of another thread")

    def _check_pointer(self, row: Row, name: str) -> None:
        place, prefix = f"_latest:{self._thread}:", self._layout.prefixes.checkpoint
        start = prefix if name.startswith(prefix + place) else USUAL.checkpoint
        ns = rest_of(row, name, start + place)
        self._pointed.add(meant_ns(ns))
        named = row.cells["value"]
        head = raw(f"{prefix}:{self._thread}:{ns}:")
        if (
            not (isinstance(named, bytes) and named.startswith(head))
            or b":" in (named[len(head) :])
        ):
            raise Refused(f"a row of '{row.table}' names a checkpoint of another thread")


def _document(row: Row) -> dict[str, Any]:
    try:
        found = json.loads(str(row.cells["value"]), object_pairs_hook=unique)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Refused(f"a row of '{row.table}' is not a document")
    return found


def _text(row: Row, document: Mapping[str, Any], name: str) -> str:
    found = document.get(name)
    if not isinstance(found, str):
        raise Refused(f"a document of '{row.table}' has no '{name}'")
    return found
