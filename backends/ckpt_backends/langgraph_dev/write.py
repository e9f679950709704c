"""Changes the files of `langgraph dev` while no server runs on them, and makes them.

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
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

from ckpt_backends.changes import Remaining, Remains, moved
from ckpt_backends.codec.edits import plain
from ckpt_backends.errors import (
    Refused,
    StoreChanged,
    StoreUnavailable,
    Unsupported,
    only_read,
    reason_of,
)
from ckpt_backends.files import (
    create_part,
    locked,
    make_private_folder,
    remove_unfinished,
    sync_folder,
    to_disk,
    writing,
)
from ckpt_backends.langgraph_dev.declaration import CHECKPOINTS, FOLDER, JAVASCRIPT_LAYOUT, SUFFIX
from ckpt_backends.langgraph_dev.files import (
    FILES,
    NAMES,
    QUIET_SECONDS,
    SERVERS_FILES,
    SERVERS_MEMORY,
    SERVERS_OWN,
    Entry,
    EntryKey,
    Spool,
    StoredCheckpoint,
    StoredValue,
    StoredWrite,
    Table,
    Tables,
    grouped,
    named,
    place_of,
    running,
    stamps,
)
from ckpt_backends.langgraph_dev.records import entry_of, is_storable, row_of
from ckpt_backends.model import Kind, Progress, Record, silent, time_of
from ckpt_backends.overwriting import OldFiles, overwrite_left
from ckpt_backends.protocol import WritableStore
from ckpt_backends.records import (
    CopyTarget,
    Heads,
    NamespaceState,
    RecordStore,
    Rows,
    ThreadState,
    Where,
)
from ckpt_backends.rows import Restored, Row, RowEdit, conflict
from ckpt_backends.sql.tables import BLOBS as BLOB_TABLE
from ckpt_backends.sql.tables import CHECKPOINTS as CHECKPOINT_TABLE
from ckpt_backends.sql.tables import WRITES as WRITE_TABLE
from ckpt_backends.transfer.bodies import open_body, version_text
from ckpt_backends.transfer.copying import Arrival
from ckpt_backends.transfer.form import CannotHold, Language
from ckpt_backends.url import StoreUrl

# The rows of threads in tables that are changed in memory.


class DevRows(Rows):
    """The new contents of the files, before they are saved."""

    tables = MappingProxyType(
        {Kind.WRITE: WRITE_TABLE, Kind.VALUE: BLOB_TABLE, Kind.CHECKPOINT: CHECKPOINT_TABLE}
    )

    def __init__(self, contents: Tables, spool: Spool) -> None:
        self.touched: set[str] = set()
        """The tables that must be written."""
        self._contents = contents
        self._keep = spool.kept
        self.entries: dict[str, dict[str, dict[EntryKey, Any]]] = {
            table: defaultdict(dict, {one: dict(rows) for one, rows in contents.of(table).items()})
            for table in FILES
        }
        """By table, thread and key."""
        writes = chain.from_iterable(rows.values() for rows in contents.of(WRITE_TABLE).values())
        first: StoredWrite | None = next(writes, None)
        self._has_paths = first is None or first.task_path is not None

    def heads(self, thread_ids: Sequence[str]) -> Heads:
        found: dict[str, dict[str, NamespaceState]] = {one: {} for one in thread_ids}
        for thread_id, spaces in found.items():
            for _, ns, own in self.entries[CHECKPOINT_TABLE].get(thread_id, ()):
                head, number = spaces.get(ns, ("", 0))
                spaces[ns] = NamespaceState(max(head, own), number + 1)
        return found

    def states(self, thread_ids: Sequence[str]) -> Mapping[str, ThreadState]:
        found = {}
        for one in thread_ids:
            keys = {kind: self._keys(kind, Where([one])) for kind in self.tables}
            newest = max((key[2] for key in keys[Kind.CHECKPOINT]), default="")
            rows = {kind: len(some) for kind, some in keys.items()}
            found[one] = ThreadState(time_of(newest), rows)
        return found

    def count(self, kind: Kind, where: Where) -> int:
        return len(self._keys(kind, where))

    def add(self, records: Iterable[Record]) -> None:
        values: dict[EntryKey, StoredValue] = {}
        versions: dict[EntryKey, str | int | float] = {}
        """As the bodies have them: releases before 1.0 had numbers."""
        for record in records:
            if record.kind is Kind.VALUE:
                place = *record.key[:2], record.channel, record.version
                values[place] = self._keep(record.value)
            elif record.kind is Kind.WRITE:
                if not is_storable(record.idx):
                    raise CannotHold(
                        f"a write to '{record.channel}' at checkpoint"
                        f" '{record.key.checkpoint_id}' has the index {record.idx}"
                    )
                path = record.task_path if self._has_paths else None
                write = StoredWrite(record.channel, self._keep(record.value), path)
                self._put(WRITE_TABLE, (*record.key, record.task_id, record.idx), write)
            else:
                if values and not (record.value.encrypted or record.value.type.endswith("+aes")):
                    _note_versions(record, versions)
                stored = self._keep(record.value), self._keep(record.metadata)
                self._put(CHECKPOINT_TABLE, record.key, StoredCheckpoint(*stored, record.parent))
        for key, value in values.items():
            self._put(BLOB_TABLE, (*key[:3], versions.get(key, key[3])), value)

    def _put(self, table: str, key: EntryKey, entry: Entry) -> None:
        """Add an entry. Raises `StoreChanged` if there is one with this key."""
        if key in self.entries[table][key[0]]:
            raise conflict(table)
        self.entries[table][key[0]][key] = entry
        self.touched.add(table)

    def copy(self, kind: Kind, where: Where, target: CopyTarget) -> int:
        keys, table = self._keys(kind, where), self.tables[kind]
        for key in keys:
            entry = self.entries[table][key[0]][key]
            if target.body is not None:
                entry = replace(entry, body=self._keep(target.body))
            if target.metadata is not None:
                entry = replace(entry, metadata=self._keep(target.metadata))
            own = key[2] if target.checkpoint_id is None else target.checkpoint_id
            self._put(table, (target.thread_id, key[1], own, *key[3:]), entry)
        return len(keys)

    def remove(self, kind: Kind, where: Where) -> int:
        keys, table = self._keys(kind, where), self.tables[kind]
        for key in keys:
            del self.entries[table][key[0]][key]
            self.touched.add(table)
        return len(keys)

    def named(self, where: Where) -> Iterator[tuple[str, str]]:
        for key in self._keys(Kind.CHECKPOINT, where):
            row = self.entries[CHECKPOINT_TABLE][key[0]][key]
            found = named(key, self._contents.value(CHECKPOINT_TABLE, row.body))
            if found is None:
                raise Unsupported(
                    f"cannot copy checkpoint '{key[2]}': its body cannot be read",
                    hint="copy another checkpoint of the thread",
                )
            yield from ((place[2], str(place[3])) for place in found[1].values())

    def restore(self, row: Row) -> bool:
        """Add a row. Returns False if it already exists."""
        key, entry = entry_of(row, self._keep)
        found = self._row(row.table, key)
        if found not in (None, row):
            raise conflict(row.table)
        if found is None:
            self._put(row.table, key, entry)
        return found is None

    def replace(self, edit: RowEdit) -> bool:
        """Replace a row. Returns whether it was still as it was read."""
        table = edit.new.table
        key, entry = entry_of(edit.new, self._keep)
        if self._row(table, key) != edit.stored:
            return False
        self.entries[table][key[0]][key] = entry
        self.touched.add(table)
        return True

    def _row(self, table: str, key: EntryKey) -> Row | None:
        """The row with a key; None if there is none."""
        found = self.entries[table][key[0]].get(key)
        return None if found is None else row_of(table, key, found, self._contents)

    def _keys(self, kind: Kind, where: Where) -> list[EntryKey]:
        return [
            key
            for thread_id in where.thread_ids
            for key in self.entries[self.tables[kind]].get(thread_id, ())
            if (
                where.takes_value(key[1], key[2], str(key[3]))
                if kind is Kind.VALUE
                else where.takes(key[1], key[2], key[3:])
            )
        ]


def _note_versions(record: Record, versions: dict[EntryKey, str | int | float]) -> None:
    """Remember the versions in a body, by thread, namespace, channel and their text."""
    key = record.key
    where = f"checkpoint '{key.checkpoint_id}'"
    body = open_body(record.value, where)
    if body.values:
        raise CannotHold(f"{where} has values in its body, where the saver would not find them")
    for channel, version in (body.fields.get("channel_versions") or {}).items():
        if not isinstance(version, str | int | float) or not is_storable(version):
            raise CannotHold(f"the version of channel '{channel}' at {where} is too large")
        place = (key.thread_id, key.checkpoint_ns, channel, version_text(version))
        if versions.setdefault(place, version) != version:
            raise CannotHold(f"version '{version}' of channel '{channel}' has two types")


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


def write_table(table: str, entries: Table, tables: Tables, out: BinaryIO) -> None:
    """Write a table as a pickle to `out`. `tables` reads its values."""
    pickle = _Pickle(out, lambda stored: tables.bytes(table, stored))
    pickle.put(_PROTOCOL + _EMPTY_DICT)
    for thread_id, rows in entries.items():
        if rows:
            _WRITERS[table](pickle, thread_id, rows)
    pickle.put(_STOP)


class _Pickle:
    """Writes one pickle, and remembers which texts it already contains."""

    def __init__(self, out: BinaryIO, read: Callable[[StoredValue], bytes]) -> None:
        self._out = out
        self._read = read
        self._known: dict[str, int] = {}

    def put(self, code: bytes) -> None:
        self._out.write(code)

    def plain(self, *values: str | float | None) -> None:
        for value in values:
            if not isinstance(value, str):
                self.put(plain(value))
            elif value in self._known:
                self.put(_GET + struct.pack("<I", self._known[value]))
            else:
                place = self._known[value] = len(self._known)
                self.put(plain(value) + _PUT + struct.pack("<I", place))

    def value(self, stored: StoredValue) -> None:
        self.plain(stored.type)
        data = self._read(stored)
        size = len(data)
        is_short = size < 1 << 32
        self.put(_BYTES + struct.pack("<I", size) if is_short else _LONG + struct.pack("<Q", size))
        self.put(data)
        self.put(_TUPLE2)


def _checkpoints(
    pickle: _Pickle, thread_id: str, rows: Mapping[EntryKey, StoredCheckpoint]
) -> None:
    pickle.plain(thread_id)
    pickle.put(_THREAD)
    for (_, ns), in_ns in grouped(rows, 2).items():
        pickle.plain(ns)
        pickle.put(_EMPTY_DICT)
        for (_, _, checkpoint_id), row in in_ns:
            pickle.plain(checkpoint_id)
            pickle.value(row.body)
            pickle.value(row.metadata)
            pickle.plain(row.parent)
            pickle.put(_TUPLE3 + _SETITEM)
        pickle.put(_SETITEM)
    pickle.put(_SETITEM)


def _writes(pickle: _Pickle, thread_id: str, rows: Mapping[EntryKey, StoredWrite]) -> None:  # noqa: ARG001
    for place, writes in grouped(rows, 3).items():
        pickle.plain(*place)
        pickle.put(_TUPLE3 + _EMPTY_DICT)
        for (*_, task_id, idx), write in writes:
            pickle.plain(task_id, idx)
            pickle.put(_TUPLE2 + _MARK)
            pickle.plain(task_id, write.channel)
            pickle.value(write.value)
            if write.task_path is not None:
                pickle.plain(write.task_path)
            pickle.put(_TUPLE + _SETITEM)
        pickle.put(_SETITEM)


def _blobs(pickle: _Pickle, thread_id: str, rows: Mapping[EntryKey, StoredValue]) -> None:  # noqa: ARG001
    for key, stored in rows.items():
        pickle.put(_MARK)
        pickle.plain(*key)
        pickle.put(_TUPLE)
        pickle.value(stored)
        pickle.put(_SETITEM)


_WRITERS: Mapping[str, Callable[[_Pickle, str, Any], None]] = {
    CHECKPOINT_TABLE: _checkpoints,
    WRITE_TABLE: _writes,
    BLOB_TABLE: _blobs,
}


class WritableDevStore(RecordStore):
    """A folder of `langgraph dev`, opened for changing."""

    def __init__(self, url: StoreUrl, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._refuse_server()
        self._old: OldFiles | None = None
        """The replaced files, if they are to be overwritten."""

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
        note = self.finish_removal()
        places: list[Remaining] = [Remaining(f"'{SERVERS_OWN}'", note)] if note else []
        for name in SERVERS_MEMORY:
            if (self._folder / name).exists():
                reason = "long-term memory of the server, which ckpt does not change"
                places.append(Remaining(f"'{name}'", reason))
        with locked(self._folder):
            # What a killed server left.
            for path in (self._folder / f"{name}.tmp" for name in NAMES):
                places += overwrite_left(path, f"'{path.name}'")
            found = (self._old or OldFiles()).remains()
        return found._replace(places=(*places, *found.places))

    def restore(self, rows: Iterable[Row]) -> Restored:
        with self._transaction(()) as draft:
            new = [draft.restore(row) for row in rows]
        return Restored(sum(new), len(new) - sum(new))

    def receive(self, arrivals: Iterable[Arrival]) -> None:
        with Tables(self._folder) as tables:
            if tables.of(CHECKPOINT_TABLE) and not tables.has(BLOB_TABLE):
                raise Unsupported(
                    f"cannot add threads to '{self._folder}': langgraph-checkpoint before 2.1 wrote"
                    " it, which stores values in another form",
                    hint="copy to a new folder with --create",
                )
        super().receive(arrivals)

    def replace(self, thread_id: str, edits: Iterable[RowEdit]) -> None:
        with self._transaction([thread_id]) as draft:
            for edit in edits:
                if not draft.replace(edit):
                    raise moved(thread_id)

    def vacuum(self) -> None:
        """Nothing to do: each change writes the files anew."""

    def close(self) -> None:
        """Let go of replaced files. No other file stays open between two changes."""
        if self._old is not None:
            self._old.close()

    @property
    def applies_together(self) -> bool:
        return True

    @contextmanager
    def _transaction(
        self,
        thread_ids: Sequence[str],  # noqa: ARG002 - the files have all threads
        *,
        exclusive: bool = False,  # noqa: ARG002
    ) -> Iterator[DevRows]:
        """Lock the folder, yield a draft to change, and save the draft."""
        with locked(self._folder), Tables(self._folder) as tables, Spool(self._folder) as spool:
            remove_unfinished(self._folder, NAMES.__contains__)
            draft = DevRows(tables, spool)
            if tables.ignored:
                raise Unsupported(
                    f"cannot write to '{self._url}': no saver writes such an entry:"
                    f" {tables.ignored[0]}",
                    hint="writing the files again would drop that entry",
                )
            yield draft
            try:
                self._save(draft, tables)
            except OSError as error:
                raise StoreUnavailable(
                    f"cannot write to '{self._url}': {reason_of(error)}"
                ) from error

    def _save(self, draft: DevRows, tables: Tables) -> None:
        with ExitStack() as stack:
            made: dict[str, Path] = {}
            for table, name in reversed(FILES.items()):
                if table in draft.touched:
                    path = self._folder / name
                    like = path if path.exists() else self._folder / CHECKPOINTS
                    part, out = create_part(path, like=like)
                    stack.callback(part.unlink, missing_ok=True)
                    stack.enter_context(out)
                    made[name] = part
                    write_table(table, draft.entries[table], tables, out)
                    to_disk(out)
            self._refuse_server()
            if stamps(self._folder) != tables.stamps:
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
        reason = "langgraph dev is running and would overwrite the change"
        _refuse_server(self._folder, f"write to '{self._url}': {reason}")


def _refuse_server(folder: Path, what: str) -> None:
    """Raise `StoreUnavailable` for `what` if a server probably runs on the folder."""
    if reason := running(folder):
        raise StoreUnavailable(
            f"cannot {what}: {reason}",
            hint=f"stop the server, wait {QUIET_SECONDS} seconds, then run the command again",
        )


# Makes the files of `langgraph dev` in a new folder.


_EMPTY = b"\x80\x02}q\x00."
"""What `PersistentDict.sync` writes for an empty dict: a pickle of protocol 2."""


def create_store(url: StoreUrl, language: Language) -> None:  # noqa: ARG001 - Python only
    """Make a folder with empty files, as the server does when it stops for the first time.

    Raises `Refused` if the folder has other files than those of a server, and `StoreUnavailable`.
    """
    folder = _folder(url)
    if (folder / CHECKPOINTS).exists():
        return
    try:
        make_private_folder(folder)
        remove_unfinished(folder, NAMES.__contains__)
        foreign = sorted({one.name for one in folder.iterdir()} - _OWN)
        if foreign:
            raise Refused(
                f"cannot make a store in '{folder}': it has other files, such as '{foreign[0]}'",
                hint=f"name a folder '{FOLDER}' that does not exist, or a project without one",
            )
        _refuse_server(folder, f"make a store in '{folder}': langgraph dev is running")
        # The first file, by which the folder is recognised, comes last.
        for name in reversed(NAMES):
            with writing(folder / name) as file:
                file.write(_EMPTY)
    except OSError as error:
        raise StoreUnavailable(f"cannot make a store in '{folder}': {reason_of(error)}") from error


_OWN = frozenset({*NAMES, *SERVERS_FILES})


def _folder(url: StoreUrl) -> Path:
    """The folder for the files: the one that is named, or the one of a project."""
    path = Path(os.path.abspath(url.path))
    if path.suffix == SUFFIX:
        return path.parent
    is_own = path.name == FOLDER or (path / CHECKPOINTS).exists()
    return path if is_own else path / FOLDER


def open_writable(url: StoreUrl) -> WritableStore:
    """Open a folder for changing.

    Raises the errors of `open_store`, `StoreUnavailable` while its server runs, and `Unsupported`
    for LangGraph.js and on systems other than POSIX.
    """
    folder, layout = place_of(url)
    if layout == JAVASCRIPT_LAYOUT:
        raise only_read(str(url))
    if os.name != "posix":
        raise Unsupported(
            f"cannot write to '{url}': folders cannot be locked on this system",
            hint="run the command on Linux or macOS",
        )
    return WritableDevStore(url, folder)
