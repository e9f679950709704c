"""Changes the files of `langgraph dev` while no server runs on them.

A running server would overwrite every change, because it reads its files only when it starts. A
change is applied in memory, all changed tables are written to new files, and then each new file is
renamed over the old one. The checkpoints file is renamed last, because its checkpoints refer to the
other files. If a removal is killed between two renames, running it again completes it. A killed
fork leaves only values and writes without a checkpoint, which `ckpt gc --scope all` removes.

A lock on the folder prevents two changes at the same time. The saver's channel versions are random,
so two branches never share a value by accident.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from ckpt_backends.base import BaseWritableStore
from ckpt_backends.changes import (
    Change,
    CopyOfCheckpoint,
    Remaining,
    Remains,
    Removal,
    Removed,
    gone,
    moved,
)
from ckpt_backends.codec.edits import plain
from ckpt_backends.errors import StoreChanged, StoreUnavailable, Unsupported, reason_of
from ckpt_backends.files import create_part, locked, remove_unfinished, sync_folder, to_disk
from ckpt_backends.langgraph_dev.declaration import CHECKPOINTS
from ckpt_backends.langgraph_dev.files import (
    BLOBS,
    NAMES,
    QUIET_SECONDS,
    SERVERS_MEMORY,
    SERVERS_OWN,
    WRITES,
    Spool,
    StoredCheckpoint,
    StoredValue,
    StoredWrite,
    Tables,
    ValueKey,
    Version,
    WriteKey,
    named,
    running,
    stamps,
)
from ckpt_backends.langgraph_dev.store import FILES, is_storable, put, stored_row
from ckpt_backends.model import CheckpointKey, Progress, TypedBytes, silent, time_of
from ckpt_backends.overwriting import OldFiles, overwrite_and_remove
from ckpt_backends.rows import Restored, Row, RowEdit, conflict
from ckpt_backends.sql.tables import BLOBS as BLOB_TABLE
from ckpt_backends.sql.tables import CHECKPOINTS as CHECKPOINT_TABLE
from ckpt_backends.sql.tables import WRITES as WRITE_TABLE
from ckpt_backends.transfer.bodies import open_body, version_text
from ckpt_backends.transfer.form import CannotHold
from ckpt_backends.transfer.parts import Arrival, CheckpointPart, ValuePart, WritePart
from ckpt_backends.url import StoreUrl

# Adds the parts of threads to the tables of `langgraph dev`.


def receive_thread(arrival: Arrival, tables: Tables, spool: Spool) -> set[str]:
    """Add a thread to the tables. Returns the names of the files that must be written.

    Raises `StoreChanged` and `Unsupported`.
    """
    if tables.checkpoints and BLOBS not in tables.files.opened:
        raise Unsupported(
            f"cannot add threads to '{tables.files.folder}': langgraph-checkpoint before 2.1 wrote"
            " it, which stores values in another form",
            hint="copy to a new folder with --create",
        )
    namespaces = tables.checkpoints.get(arrival.thread_id, {})
    if {ns: max(rows) for ns, rows in namespaces.items() if rows} != dict(arrival.heads):
        raise moved(Change(arrival.thread_id, arrival.heads))
    thread = _ArrivingThread(tables, spool)
    for part in arrival.parts:
        match part:
            case CheckpointPart():
                thread.add_checkpoint(part)
            case WritePart():
                thread.add_write(part)
            case ValuePart():
                thread.add_value(part)
    thread.end()
    return thread.touched


class _ArrivingThread:
    """A thread while its parts arrive."""

    def __init__(self, tables: Tables, spool: Spool) -> None:
        self._tables = tables
        self._spool = spool
        self._values: dict[ValueKey, StoredValue] = {}
        """By thread, namespace, channel, and version as a text."""
        self._versions: dict[ValueKey, Version] = {}
        """By the same, the version as the body has it: releases before 1.0 had numbers."""
        self.touched: set[str] = set()

    def add_checkpoint(self, part: CheckpointPart) -> None:
        key = part.key
        if not part.body.encrypted and not part.body.type.endswith("+aes"):
            self._note_versions(part)
        of_thread = self._tables.checkpoints.setdefault(key.thread_id, {})
        rows = of_thread.setdefault(key.checkpoint_ns, {})
        if key.checkpoint_id in rows:
            raise conflict(CHECKPOINT_TABLE)
        kept = self._spool.kept
        stored = StoredCheckpoint(kept(part.body), kept(part.metadata), part.parent)
        rows[key.checkpoint_id] = stored
        self.touched.add(CHECKPOINTS)

    def _note_versions(self, part: CheckpointPart) -> None:
        key = part.key
        where = f"checkpoint '{key.checkpoint_id}'"
        body = open_body(part.body, where)
        if body.values:
            raise CannotHold(f"{where} has values in its body, where the saver would not find them")
        for channel, version in (body.fields.get("channel_versions") or {}).items():
            if not isinstance(version, str | int | float) or not is_storable(version):
                raise CannotHold(f"the version of channel '{channel}' at {where} is too large")
            place = (key.thread_id, key.checkpoint_ns, channel, version_text(version))
            if self._versions.setdefault(place, version) != version:
                raise CannotHold(f"version '{version}' of channel '{channel}' has two types")

    def add_write(self, part: WritePart) -> None:
        key: CheckpointKey = part.key
        if not is_storable(part.idx):
            raise CannotHold(
                f"a write to '{part.channel}' at checkpoint '{key.checkpoint_id}' has the index"
                f" {part.idx}"
            )
        place = (key.thread_id, key.checkpoint_ns, key.checkpoint_id)
        rows = self._tables.writes.setdefault(place, {})
        if (part.task_id, part.idx) in rows:
            raise conflict(WRITE_TABLE)
        value = self._spool.kept(part.value)
        rows[part.task_id, part.idx] = StoredWrite(part.channel, value, part.task_path)
        self.touched.add(WRITES)

    def add_value(self, part: ValuePart) -> None:
        place = (part.thread_id, part.checkpoint_ns, part.channel, part.version)
        self._values[place] = self._spool.kept(part.value)
        self.touched.add(BLOBS)

    def end(self) -> None:
        """Add the values, whose versions are known now."""
        for place, value in self._values.items():
            key = (*place[:3], self._versions.get(place, place[3]))
            if key in self._tables.blobs:
                raise conflict(BLOB_TABLE)
            self._tables.blobs[key] = value


# Writes the tables as pickles of dicts, tuples, texts, numbers, bytes and `defaultdict(dict)`.
#
# Each thread must stay a `defaultdict`, because the saver relies on it to create new namespaces.
# Each different text is stored once. Values are copied from file to file, one in memory at a
# time.


_PROTOCOL, _STOP = b"\x80\x04", b"."
_MARK, _EMPTY_DICT, _SETITEM = b"(", b"}", b"s"
_TUPLE, _TUPLE2, _TUPLE3 = b"t", b"\x86", b"\x87"
_PUT, _GET, _BYTES, _LONG = b"r", b"j", b"B", b"\x8e"
_THREAD = b"ccollections\ndefaultdict\ncbuiltins\ndict\n\x85R"
"""A `defaultdict(dict)`."""


def write_table(name: str, tables: Tables, out: BinaryIO) -> None:
    """Write the table of the file `name` as a pickle to `out`."""
    pickle = _Pickle(out, lambda stored: tables.bytes(name, stored))
    pickle.put(_PROTOCOL + _EMPTY_DICT)
    _WRITERS[name](pickle, tables)
    pickle.put(_STOP)


class _Pickle:
    """Writes one pickle, and remembers which texts it already contains."""

    def __init__(self, out: BinaryIO, read: Callable[[StoredValue], bytes]) -> None:
        self._out = out
        self._read = read
        self._known: dict[str, int] = {}

    def put(self, code: bytes) -> None:
        self._out.write(code)

    def texts(self, *texts: str) -> None:
        for text in texts:
            place = self._known.get(text)
            if place is None:
                place = self._known[text] = len(self._known)
                self.put(plain(text) + _PUT + struct.pack("<I", place))
            else:
                self.put(_GET + struct.pack("<I", place))

    def value(self, stored: StoredValue) -> None:
        self.texts(stored.type)
        data = self._read(stored)
        size = len(data)
        is_short = size < 1 << 32
        self.put(_BYTES + struct.pack("<I", size) if is_short else _LONG + struct.pack("<Q", size))
        self.put(data)
        self.put(_TUPLE2)


def _checkpoints(pickle: _Pickle, tables: Tables) -> None:
    for thread_id, namespaces in tables.checkpoints.items():
        pickle.texts(thread_id)
        pickle.put(_THREAD)
        for ns, rows in namespaces.items():
            pickle.texts(ns)
            pickle.put(_EMPTY_DICT)
            for checkpoint_id, row in rows.items():
                pickle.texts(checkpoint_id)
                pickle.value(row.body)
                pickle.value(row.metadata)
                if row.parent is None:
                    pickle.put(plain(None))
                else:
                    pickle.texts(row.parent)
                pickle.put(_TUPLE3 + _SETITEM)
            pickle.put(_SETITEM)
        pickle.put(_SETITEM)


def _writes(pickle: _Pickle, tables: Tables) -> None:
    for key, rows in tables.writes.items():
        pickle.texts(*key)
        pickle.put(_TUPLE3 + _EMPTY_DICT)
        for (task_id, idx), write in rows.items():
            pickle.texts(task_id)
            pickle.put(plain(idx) + _TUPLE2 + _MARK)
            pickle.texts(task_id, write.channel)
            pickle.value(write.value)
            if write.task_path is not None:
                pickle.texts(write.task_path)
            pickle.put(_TUPLE + _SETITEM)
        pickle.put(_SETITEM)


def _blobs(pickle: _Pickle, tables: Tables) -> None:
    for (thread_id, ns, channel, version), stored in tables.blobs.items():
        pickle.put(_MARK)
        pickle.texts(thread_id, ns, channel)
        if isinstance(version, str):
            pickle.texts(version)
        else:
            pickle.put(plain(version))
        pickle.put(_TUPLE)
        pickle.value(stored)
        pickle.put(_SETITEM)


_WRITERS = {CHECKPOINTS: _checkpoints, WRITES: _writes, BLOBS: _blobs}


# Overwrites old files of `langgraph dev`, and names those of the server that are left.


def remains_of(folder: Path, old: OldFiles, note: str) -> Remains:
    """Overwrite the replaced files, and unfinished ones of a killed server.

    `note` is about a file that only the server changes; `''` if there is none.
    """
    places: list[Remaining] = [Remaining(f"'{SERVERS_OWN}'", note)] if note else []
    for name in SERVERS_MEMORY:
        if (folder / name).exists():
            reason = "long-term memory of the server, which ckpt does not change"
            places.append(Remaining(f"'{name}'", reason))
    for name in NAMES:
        unfinished = folder / f"{name}.tmp"
        try:
            places += overwrite_and_remove(unfinished, f"'{unfinished.name}'")
        except FileNotFoundError:
            continue
        except OSError as error:
            reason = reason_of(error)
            places.append(Remaining(f"'{unfinished.name}'", reason, is_reachable=True))
    found = old.remains()
    return found._replace(places=(*places, *found.places))


_ORDER = (BLOBS, WRITES, CHECKPOINTS)


class WritableDevStore(BaseWritableStore):
    """A folder of `langgraph dev`, opened for changing."""

    def __init__(self, url: StoreUrl, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._refuse_server()
        self._old: OldFiles | None = None
        """The replaced files, if they are to be overwritten."""

    def apply(self, change: Change) -> None:
        with self._changing() as draft:
            draft.apply(change)

    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        with self._changing() as draft:
            return list(map(draft.remove, removals))

    def finish_removal(self) -> str:
        if not (self._folder / SERVERS_OWN).exists():
            return ""
        return (
            f"{SERVERS_OWN} belongs to the server and was not changed: it may still hold inputs and"
            " values of removed threads; delete them in the server too"
        )

    def begin_erasure(self) -> None:
        self._old = self._old or OldFiles()

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:  # noqa: ARG002
        progress("overwrite old files")
        with locked(self._folder):
            return remains_of(self._folder, self._old or OldFiles(), self.finish_removal())

    def restore(self, rows: Iterable[Row]) -> Restored:
        with Spool(self._folder) as spool, self._changing() as draft:
            new = [draft.restore(row, spool) for row in rows]
        return Restored(sum(new), len(new) - sum(new))

    def receive(self, arrivals: Iterable[Arrival]) -> None:
        with Spool(self._folder) as spool, self._changing() as draft:
            for arrival in arrivals:
                draft.touched |= receive_thread(arrival, draft.tables, spool)

    def replace(self, thread_id: str, edits: Iterable[RowEdit]) -> None:
        with Spool(self._folder) as spool, self._changing() as draft:
            for stored, new in edits:
                if stored_row(stored, draft.tables) != stored:
                    raise moved(Change(thread_id, {}))
                draft.put(new, spool)

    def vacuum(self) -> None:
        """Nothing to do: each change writes the files anew."""

    def close(self) -> None:
        """Let go of replaced files. No other file stays open between two changes."""
        if self._old is not None:
            self._old.close()

    @contextmanager
    def _changing(self) -> Iterator[_Draft]:
        """Lock the folder, yield a draft to change, and save the draft."""
        with locked(self._folder), Tables(self._folder) as tables:
            remove_unfinished(self._folder, NAMES.__contains__)
            draft = _Draft(tables)
            if tables.ignored:
                raise Unsupported(
                    f"cannot write to '{self._url}': no saver writes such an entry:"
                    f" {tables.ignored[0]}",
                    hint="writing the files again would drop that entry",
                )
            yield draft
            try:
                self._save(draft)
            except OSError as error:
                raise StoreUnavailable(
                    f"cannot write to '{self._url}': {reason_of(error)}"
                ) from error

    def _save(self, draft: _Draft) -> None:
        with ExitStack() as stack:
            made: dict[str, Path] = {}
            for name in _ORDER:
                if name in draft.touched:
                    path = self._folder / name
                    like = path if path.exists() else self._folder / CHECKPOINTS
                    part, out = create_part(path, like=like)
                    stack.callback(part.unlink, missing_ok=True)
                    stack.enter_context(out)
                    made[name] = part
                    write_table(name, draft.tables, out)
                    to_disk(out)
            self._refuse_server()
            if stamps(self._folder) != draft.tables.files.stamps:
                raise StoreChanged(
                    f"'{self._url}' changed meanwhile, so nothing was written",
                    hint="the server may have been started; stop it, then run the command again",
                )
            if self._old is not None:
                # Those of the change before.
                self._old.overwrite()
            for name, part in made.items():
                if self._old is not None and (self._folder / name).exists():
                    self._old.hold(self._folder / name, f"'{name}'")
                os.replace(part, self._folder / name)
        sync_folder(self._folder)

    def _refuse_server(self) -> None:
        if reason := running(self._folder):
            raise StoreUnavailable(
                f"cannot write to '{self._url}': langgraph dev is running and would overwrite the"
                f" change: {reason}",
                hint=f"stop the server, wait {QUIET_SECONDS} seconds, then run the command again",
            )


class _Draft:
    """The new contents of the files, before they are saved."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.touched: set[str] = set()
        """The files that must be written."""
        tables.checkpoints = {
            thread_id: {ns: dict(rows) for ns, rows in namespaces.items()}
            for thread_id, namespaces in tables.checkpoints.items()
        }
        tables.writes = {key: dict(rows) for key, rows in tables.writes.items()}
        tables.blobs = dict(tables.blobs)
        self._checkpoints = tables.checkpoints
        self._writes = tables.writes
        self._blobs = tables.blobs

    def apply(self, change: Change) -> None:
        """Apply a change. Raises `StoreChanged` if the thread changed since it was planned."""
        namespaces = self._checkpoints.get(change.thread_id, {})
        if {ns: max(rows) for ns, rows in namespaces.items() if rows} != dict(change.heads):
            raise moved(change)
        self._take_back(change)
        for one in change.checkpoints:
            body, metadata = _stored(one.body), _stored(one.metadata)
            self._add(one.key, StoredCheckpoint(body, metadata, one.parent_checkpoint_id))
        for blob in change.blobs:
            place = (change.thread_id, blob.checkpoint_ns, blob.channel, blob.version)
            self._add_blob(place, _stored(blob.value))
        for copy in change.copies:
            self._copy(copy, change.thread_id)
        for write in change.writes:
            path = write.task_path if self._has_paths() else None
            added = StoredWrite(write.channel, _stored(write.value), path)
            self._add_write(write.key, (write.task_id, write.idx), added)
        for some in change.copies_of_writes:
            self._copy_writes(some.source, some.target, some.tasks)

    def restore(self, row: Row, spool: Spool) -> bool:
        """Add a row. Returns False if it already exists."""
        found = stored_row(row, self.tables)
        if found is None:
            self.put(row, spool)
        elif found != row:
            raise conflict(row.table)
        return found is None

    def put(self, row: Row, spool: Spool) -> None:
        """Store a row, in place of one with the same key."""
        put(row, self.tables, spool.kept)
        self.touched.add(FILES[row.table])

    def remove(self, removal: Removal) -> Removed:
        """Remove rows of a thread, or skip the thread if it changed since it was planned."""
        thread = removal.thread_id
        ids = [one for rows in self._checkpoints.get(thread, {}).values() for one in rows]
        writes = sum(len(self._writes[key]) for key in self.tables.writes_of.get(thread, ()))
        last_at = time_of(max(ids)) if ids else None
        if reason := removal.reason_to_skip(last_at, len(ids), writes):
            return Removed(thread, skipped=reason)
        blobs = set(self.tables.blobs_of.get(thread, ()))
        keys = {CheckpointKey(*key) for key in self.tables.writes_of.get(thread, ())}
        for ns, rows in self._checkpoints.get(thread, {}).items():
            keys |= {CheckpointKey(thread, ns, one) for one in rows}
        if removal.inside is not None:
            named = {(one.checkpoint_ns, one.channel, one.version) for one in removal.inside.blobs}
            blobs = {key for key in blobs if (key[1], key[2], str(key[3])) in named}
            going = removal.inside.checkpoints
            keys = {key for key in keys if key.checkpoint_id in going.get(key.checkpoint_ns, ())}
        counts = Counter(
            {
                BLOB_TABLE: self._drop_blobs(blobs),
                WRITE_TABLE: sum(self._drop_writes(key) for key in keys),
                CHECKPOINT_TABLE: sum(self._drop(key) for key in keys),
            }
        )
        return Removed(thread, {name: number for name, number in counts.items() if number})

    def _take_back(self, change: Change) -> None:
        """Remove the checkpoints and values that the change names."""
        for key, writes in (change.removed or {}).items():
            if self._drop_writes(key) != writes:
                raise moved(change)
            if not self._drop(key):
                raise gone(key)
        stored = self.tables.blobs_of.get(change.thread_id, [])
        if change.removed and change.thread_id not in self._checkpoints:
            # The last checkpoint of the thread was removed, so remove all its values.
            self._drop_blobs(stored)
            return
        named = set(change.removed_blobs)
        self._drop_blobs([key for key in stored if (key[1], key[2], str(key[3])) in named])

    def _copy(self, copy: CopyOfCheckpoint, thread_id: str) -> None:
        """Copy a checkpoint of another thread, the values that it names, and its writes."""
        source = copy.source
        found = self._row(source)
        body = found.body if copy.body is None else _stored(copy.body)
        metadata = found.metadata if copy.metadata is None else _stored(copy.metadata)
        target = source._replace(thread_id=thread_id)
        self._add(target, StoredCheckpoint(body, metadata, found.parent))
        names = named(source, self.tables.value(CHECKPOINTS, found.body))
        if names is None:
            raise Unsupported(
                f"cannot copy checkpoint '{source.checkpoint_id}': its body cannot be read",
                hint="copy another checkpoint of the thread",
            )
        for place in names.places.values():
            if place in self._blobs:
                self._add_blob((thread_id, *place[1:]), self._blobs[place])
        self._copy_writes(source, target, copy.writes)

    def _copy_writes(
        self, source: CheckpointKey, target: CheckpointKey, tasks: Sequence[tuple[str, int]] | None
    ) -> None:
        """Copy some writes of a checkpoint to another one; all writes if `tasks` is None."""
        stored = self._writes.get(_place(source), {})
        for task in list(stored) if tasks is None else tasks:
            if task not in stored:
                raise gone(source)
            self._add_write(target, task, stored[task])

    def _row(self, key: CheckpointKey) -> StoredCheckpoint:
        rows = self._checkpoints.get(key.thread_id, {}).get(key.checkpoint_ns, {})
        if key.checkpoint_id not in rows:
            raise gone(key)
        return rows[key.checkpoint_id]

    def _add(self, key: CheckpointKey, row: StoredCheckpoint) -> None:
        rows = self._checkpoints.setdefault(key.thread_id, {}).setdefault(key.checkpoint_ns, {})
        rows[key.checkpoint_id] = row
        self.touched.add(CHECKPOINTS)

    def _add_blob(self, place: ValueKey, value: StoredValue) -> None:
        self._blobs[place] = value
        self.touched.add(BLOBS)

    def _add_write(self, key: CheckpointKey, task: tuple[str, int], write: StoredWrite) -> None:
        self._writes.setdefault(_place(key), {})[task] = write
        self.touched.add(WRITES)

    def _has_paths(self) -> bool:
        every = (one for rows in self._writes.values() for one in rows.values())
        return all(one.task_path is not None for one in islice(every, 1))

    def _drop(self, key: CheckpointKey) -> bool:
        """Remove a checkpoint. Returns whether it existed."""
        namespaces = self._checkpoints.get(key.thread_id, {})
        rows = namespaces.get(key.checkpoint_ns, {})
        if rows.pop(key.checkpoint_id, None) is None:
            return False
        self.touched.add(CHECKPOINTS)
        if not rows:
            del namespaces[key.checkpoint_ns]
        if not namespaces:
            del self._checkpoints[key.thread_id]
        return True

    def _drop_writes(self, key: CheckpointKey) -> int:
        """Remove the writes of a checkpoint. Returns their number."""
        rows = self._writes.pop(_place(key), None)
        if rows is None:
            return 0
        self.touched.add(WRITES)
        return len(rows)

    def _drop_blobs(self, places: Collection[ValueKey]) -> int:
        for place in places:
            del self._blobs[place]
            self.touched.add(BLOBS)
        return len(places)


def _stored(value: TypedBytes | None) -> StoredValue:
    assert value is not None  # noqa: S101
    return StoredValue(value.type, value.data)


def _place(key: CheckpointKey) -> WriteKey:
    return key.thread_id, key.checkpoint_ns, key.checkpoint_id
