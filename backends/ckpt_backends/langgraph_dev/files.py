"""Finds, opens and parses the files of `langgraph dev`, and the one of LangGraph.js.

The server for Python never changes a file in place: it writes `NAME.tmp` and renames that over the
old file. So an open file never changes. The server replaces its three files one after the other. To
get files of the same moment, `open_files` opens them again until none was replaced or is being
written.
"""

from __future__ import annotations

import io
import json
import os
import re
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, TypeVar

from ckpt_backends import platform, shell
from ckpt_backends.codec import decode
from ckpt_backends.codec.json import integer
from ckpt_backends.codec.pickle import (
    OLD_MODULES,
    Dict,
    FilePosition,
    Global,
    Node,
    Object,
    read_pickle_file,
)
from ckpt_backends.codec.values import MOST_BYTES, unread
from ckpt_backends.errors import (
    Closing,
    SeveralLayouts,
    StoreUnavailable,
    UnknownLayout,
    UsageError,
    reason_of,
)
from ckpt_backends.files import open_regular, read_regular
from ckpt_backends.langgraph_dev.declaration import (
    BACKEND,
    CHECKPOINTS,
    FOLDER,
    JAVASCRIPT,
    JAVASCRIPT_LAYOUT,
    LAYOUT,
    SUFFIX,
)
from ckpt_backends.model import TypedBytes
from ckpt_backends.sql.tables import BLOBS as BLOB_TABLE
from ckpt_backends.sql.tables import CHECKPOINTS as CHECKPOINT_TABLE
from ckpt_backends.sql.tables import WRITES as WRITE_TABLE
from ckpt_backends.url import StoreUrl

FILES = {
    CHECKPOINT_TABLE: CHECKPOINTS,
    WRITE_TABLE: f".langgraph_checkpoint.2{SUFFIX}",
    BLOB_TABLE: f".langgraph_checkpoint.3{SUFFIX}",
}
"""By table in archives, the file that holds it."""
NAMES = tuple(FILES.values())
TRIES = 60
PAUSE_SECONDS = 0.05
WRITING_SECONDS = 2
"""A `.tmp` file that changed within this time is being written."""
_BUFFER = 1 << 18
Stamp = tuple[int, int, int, int]
"""Device, inode, size in bytes, and time of change in ns of a file."""


def place_of(url: StoreUrl) -> tuple[Path, str]:
    """The folder that holds the files, and their layout.

    Raises `UsageError`, `StoreUnavailable`, `UnknownLayout`, and `SeveralLayouts` if the servers of
    both languages have written files and the URL names no layout.
    """
    unknown = sorted(set(url.params) - {"layout"})
    if unknown:
        raise UsageError(f"unknown parameter '{unknown[0]}' of a folder of langgraph dev")
    path, named = Path(os.path.abspath(url.path)), url.params.get("layout")
    if named not in {None, *BACKEND.layouts}:
        raise UsageError(
            f"no layout '{named}' in a folder of langgraph dev",
            hint=f"known: {', '.join(BACKEND.layouts)}",
        )
    if path.suffix == SUFFIX or path.name == JAVASCRIPT:
        named = named or (LAYOUT if path.suffix == SUFFIX else JAVASCRIPT_LAYOUT)
        path = path.parent
    elif os.path.isdir(path / FOLDER):
        path /= FOLDER
    if not os.path.isdir(path):
        raise StoreUnavailable(
            f"cannot open '{url}': no such folder",
            hint=f"name the folder {FOLDER}, or the project that holds it",
        )
    found = [one for one, name in _FIRST.items() if os.path.exists(path / name)]
    if len(found) > 1 and named is None:
        files = [shell.word(os.path.relpath(path / _FIRST[one])) for one in found]
        raise SeveralLayouts(
            f"'{url}' holds 2 stores: of langgraph dev for Python, and of LangGraph.js",
            [{"layout": one} for one in found],
            hint=f"name one: -s {' or -s '.join(files)}",
        )
    wanted = named or next(iter(found), LAYOUT)
    if wanted not in found:
        raise UnknownLayout(
            f"no checkpoints of langgraph dev in '{url}'",
            hint=f"there is no {_FIRST[wanted]}; some releases write it when the server stops",
        )
    return path, wanted


_FIRST = {LAYOUT: CHECKPOINTS, JAVASCRIPT_LAYOUT: JAVASCRIPT}
"""By layout, the file by which it is recognised."""


def stamps(folder: Path, names: Iterable[str] = NAMES) -> dict[str, Stamp]:
    """The files that exist now, by name."""
    found = {}
    for name in names:
        with suppress(FileNotFoundError):
            facts = (folder / name).stat()
            found[name] = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)
    return found


@contextmanager
def unchanging(path: Path) -> Iterator[None]:
    """Raise `StoreUnavailable` if what lies at the path cannot be read or is removed meanwhile."""
    try:
        yield
    except FileNotFoundError:
        raise StoreUnavailable(f"'{path}' was removed meanwhile") from None
    except OSError as error:
        raise StoreUnavailable(f"cannot read '{path}': {reason_of(error)}") from error


def being_written(path: Path) -> StoreUnavailable:
    """The error of a file that changed in each of the `TRIES`."""
    return StoreUnavailable(
        f"cannot read '{path}': its server is writing to it", hint="try again in a moment"
    )


def open_files(folder: Path) -> tuple[dict[str, Stamp], dict[str, BinaryIO]]:
    """Open all files of the same moment; the third may be missing. Raises `StoreUnavailable`."""
    with unchanging(folder):
        for _ in range(TRIES):
            before = stamps(folder)
            if CHECKPOINTS not in before:
                raise FileNotFoundError
            files = {name: open_regular(folder / name, buffering=_BUFFER) for name in before}
            if stamps(folder) == before and not _is_written(folder):
                return before, files
            for file in files.values():
                file.close()
            time.sleep(PAUSE_SECONDS)
    raise being_written(folder)


def _is_written(folder: Path) -> bool:
    """Whether the server is writing a file. An old `.tmp` file was left by a killed server."""
    unfinished = stamps(folder, [f"{name}.tmp" for name in NAMES]).values()
    return any(time.time() - at / 1e9 < WRITING_SECONDS for *_, at in unfinished)


# The three tables of LangGraph's in-memory saver, which `langgraph dev` stores in files.
#
# Each file is a pickle of one dict. Source: `InMemorySaver` and `PersistentDict` in
# `langgraph.checkpoint.memory`.
#
# 1. thread -> namespace -> checkpoint id -> (body, metadata, parent); each thread is a
#    `defaultdict(dict)`;
# 2. (thread, namespace, checkpoint id) -> (task id, idx) -> (task id, channel, value, task path);
# 3. (thread, namespace, channel, version) -> value, since langgraph-checkpoint 2.1. Earlier
#    releases stored values in the bodies.
#
# Each body, metadata and value is (type, bytes) or (type, bytearray). Pickle protocol 2 has no
# type for bytes: it stores them as text and a call of `_codecs.encode(text, "latin1")`.


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A typed value: its bytes, or their place in a file."""

    type: str
    data: bytes | FilePosition
    problem: str = ""
    """Why it cannot be read."""
    spool: BinaryIO | None = None
    """The file of the bytes, if it is not that of the table."""

    @property
    def size(self) -> int:
        return self.data.size if isinstance(self.data, FilePosition) else len(self.data)

    def bytes(self, file: BinaryIO) -> bytes:
        """The bytes of the value; `file` is that of the table. Raises OSError and ValueError."""
        if not isinstance(self.data, FilePosition):
            return self.data
        found = self.data.read(self.spool or file)
        return found.decode("utf-8").encode("latin-1") if self.data.is_text else found

    def typed(self, file: BinaryIO) -> TypedBytes:
        """The value, or a placeholder if it cannot be read. Raises OSError."""
        if self.problem:
            return TypedBytes(self.type, b"", problem=self.problem)
        if self.size > MOST_BYTES:
            return unread(self.type, self.size)
        try:
            return TypedBytes(self.type, self.bytes(file))
        except ValueError as error:
            return TypedBytes(self.type, b"", problem=str(error))


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    body: StoredValue
    metadata: StoredValue
    parent: str | None


@dataclass(frozen=True, slots=True)
class StoredWrite:
    channel: str
    value: StoredValue
    task_path: str | None
    """None if the saver's release did not store task paths."""


Entry = StoredCheckpoint | StoredWrite | StoredValue
EntryKey = tuple[Any, ...]
"""Thread, namespace, checkpoint id, and of a write the task id and idx; of a value the thread,
namespace, channel and version, which is a text or, before langgraph-checkpoint 1.0, a number."""
Table = dict[str, dict[EntryKey, Any]]
"""The entries of one file, by thread and key."""
Ignored = list[str]
"""Descriptions of entries that no saver writes. A file with such entries is never written."""


def read_checkpoints(root: Any, nodes: PickleNodes | JsonNodes, ignored: Ignored) -> Table:
    """Read the checkpoints. Raises ValueError if they are no dict."""
    threads: Table = {}
    for thread, in_thread in nodes.items(root):
        with tolerant(ignored, "a thread"):
            rows: dict[EntryKey, StoredCheckpoint] = {}
            thread_id = nodes.text(thread)
            for space, in_ns in nodes.items(in_thread):
                with tolerant(ignored, "a namespace"):
                    ns = nodes.text(space)
                    for own, row in nodes.items(in_ns):
                        with tolerant(ignored, "a checkpoint"):
                            body, metadata, parent = nodes.fields(
                                row, "body, metadata and parent", 3
                            )
                            rows[thread_id, ns, nodes.text(own)] = StoredCheckpoint(
                                nodes.stored(body),
                                nodes.stored(metadata),
                                None if parent is None else nodes.text(parent),
                            )
            threads[thread_id] = rows
    return threads


def read_writes(root: Any, nodes: PickleNodes | JsonNodes, ignored: Ignored) -> Table:
    """Read the writes. Raises ValueError if they are no dict."""
    writes: Table = {}
    for key, rows in nodes.items(root):
        with tolerant(ignored, "a checkpoint's writes"):
            place = nodes.place(key)
            for task, row in nodes.items(rows):
                with tolerant(ignored, "a write"):
                    own, channel, value, *path = nodes.fields(
                        row, "task, channel, value and path", 3, 4
                    )
                    full = (*place, *nodes.task(task, nodes.text(own)))
                    writes.setdefault(place[0], {})[full] = StoredWrite(
                        nodes.text(channel),
                        nodes.stored(value),
                        nodes.text(path[0]) if path else None,
                    )
    return writes


def read_blobs(root: Any, nodes: PickleNodes, ignored: Ignored) -> Table:
    """Read the values. Raises ValueError if they are no dict."""
    blobs: Table = {}
    for key, value in nodes.items(root):
        with tolerant(ignored, "a value"):
            if not isinstance(key, tuple) or len(key) != 4:
                raise ValueError("no key of a value")
            thread_id, ns, channel = map(nodes.text, key[:3])
            of_thread = blobs.setdefault(thread_id, {})
            of_thread[thread_id, ns, channel, nodes.version(key[3])] = nodes.stored(value)
    return blobs


@contextmanager
def tolerant(ignored: Ignored, what: str) -> Iterator[None]:
    """Turn a ValueError into a description of an ignored entry."""
    try:
        yield
    except ValueError as error:
        ignored.append(f"{what}: {error}")


class PickleNodes:
    """Reads what `read_pickle_file` returns for a file. Raises ValueError for other contents."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def items(self, node: Node) -> Iterable[tuple[Node, Node]]:
        """The items of a dict or defaultdict. If a key occurs twice, the later item counts."""
        is_default = isinstance(node, Object) and _is(node.callee, "collections", "defaultdict")
        if not is_default and not isinstance(node, Dict):
            raise ValueError(f"{_kind(node)} instead of a dict")
        pairs: Iterable[tuple[Node, Node]] = node.pairs
        return pairs

    def fields(self, node: Node, names: str, *lengths: int) -> Sequence[Node]:
        if not isinstance(node, tuple) or len(node) not in lengths:
            raise ValueError(f"{_kind(node)} instead of {names}")
        return node

    def text(self, node: Node) -> str:
        if isinstance(node, FilePosition) and node.is_text:
            return node.read(self._file).decode("utf-8", "surrogatepass")
        if not isinstance(node, str):
            raise ValueError(f"{_kind(node)} instead of text")
        return node

    def stored(self, node: Node) -> StoredValue:
        """A value. If something else is stored in place of its bytes, `problem` is set."""
        tag, data = self.fields(node, "a type and bytes", 2)
        name, found = self.text(tag), _bytes(data)
        if found is None:
            return StoredValue(name, b"", f"{_kind(data)} instead of bytes; no code of it was run")
        return StoredValue(name, found)

    def place(self, key: Node) -> EntryKey:
        """The thread, namespace and checkpoint id in the key of writes."""
        if not isinstance(key, tuple) or len(key) != 3:
            raise ValueError(f"{_kind(key)} as a key")
        return tuple(map(self.text, key))

    def task(self, key: Node, task_id: str) -> tuple[str, int]:
        """The task id and idx in the key of a write of this task."""
        if not isinstance(key, tuple) or len(key) != 2 or not _is_number(key[1]):
            raise ValueError("no key of a write")
        if self.text(key[0]) != task_id:
            raise ValueError("a write under the key of another task")
        return task_id, key[1]

    def version(self, node: Node) -> str | int | float:
        if type(node) is float or _is_number(node):
            version: int | float = node
            return version
        return self.text(node)


def _bytes(node: Node) -> bytes | FilePosition | None:
    """The bytes of pickled `bytes` or a `bytearray`; None for any other object."""
    if isinstance(node, Object):
        is_array = _is(node.callee, "builtins", "bytearray")
        if not node.args and (is_array or _is(node.callee, "builtins", "bytes")):
            return b""
        if len(node.args) == 1 and is_array:
            return _bytes(node.args[0])
        if len(node.args) == 2 and (is_array or _is(node.callee, "_codecs", "encode")):
            text, encoding = node.args
            if encoding in {"latin1", "latin-1"} and isinstance(text, str):
                with suppress(UnicodeEncodeError):
                    return text.encode("latin-1")
            elif encoding in {"latin1", "latin-1"} and isinstance(text, FilePosition):
                return text if text.is_text else None
        return None
    if isinstance(node, FilePosition) and node.is_text:
        return None
    return node if isinstance(node, bytes | FilePosition) else None


def _is_number(node: Node) -> bool:
    """Whether it is a signed 32-bit integer."""
    return type(node) is int and -(1 << 31) <= node < 1 << 31


def _is(node: Node, module: str, name: str) -> bool:
    return (
        isinstance(node, Global)
        and OLD_MODULES.get(node.module, node.module) == module
        and node.name == name
    )


def _kind(node: Any) -> str:
    """A description of a node for an error message."""
    match node:
        case Object(callee=Global(module=module, name=name)):
            return f"a call of {module[:80]}.{name[:80]}"
        case Global(module=module, name=name):
            return f"the name {module[:80]}.{name[:80]}"
        case tuple():
            return f"a tuple of {len(node)}"
        case None:
            return "nothing"
        case FilePosition():
            return "a long text" if node.is_text else "long bytes"
    return f"a {type(node).__name__.lower()}"


_Entry = TypeVar("_Entry")


def grouped(
    entries: Mapping[EntryKey, _Entry], length: int
) -> dict[EntryKey, list[tuple[EntryKey, _Entry]]]:
    """The entries by the beginnings of their keys."""
    found: dict[EntryKey, list[tuple[EntryKey, _Entry]]] = {}
    for key, entry in entries.items():
        found.setdefault(key[:length], []).append((key, entry))
    return found


# The contents of the files of one moment. Each file is parsed when it is first needed.


def named(key: EntryKey, body: TypedBytes) -> tuple[bool, dict[str, EntryKey]] | None:
    """By channel, the keys of the values that the body of a checkpoint names.

    The first item tells whether the body has a checkpoint format before 4. None if the body cannot
    be read.
    """
    fields = decode(body)
    if not isinstance(fields, dict):
        return None
    versions = fields.get("channel_versions")
    return fields.get("v") in {1, 2, 3}, {
        channel: (*key[:2], channel, version)
        for channel, version in (versions if isinstance(versions, dict) else {}).items()
        if isinstance(channel, str) and isinstance(version, str | int | float)
    }


_READERS = {CHECKPOINT_TABLE: read_checkpoints, WRITE_TABLE: read_writes, BLOB_TABLE: read_blobs}
_last: dict[str, tuple[Stamp, Table, Ignored]] = {}
"""Cache: by table, the file that was parsed last. Commands that change something open the same
files twice, and `ckpt ui` opens them often. A replaced file is parsed again."""


class Tables(Closing):
    """The three tables of the same moment. Values stay in the files.

    Do not change the dicts in place: other `Tables` may share them.
    """

    def __init__(self, folder: Path) -> None:
        self.ignored: Ignored = []
        self._folder = folder
        self._known: dict[str, Table] = {}
        self.stamps, self._files = self._open()

    def _open(self) -> tuple[dict[str, Stamp], dict[str, BinaryIO]]:
        return open_files(self._folder)

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def of(self, table: str) -> Table:
        """The entries of a table. Raises `StoreUnavailable` and `UnknownLayout`."""
        if table not in self._known:
            self._known[table] = self._parsed(table) if self.has(table) else {}
        return self._known[table]

    def has(self, table: str) -> bool:
        """Whether there is a file of the table."""
        return FILES[table] in self._files

    def value(self, table: str, stored: StoredValue) -> TypedBytes:
        """A value of a table. Raises `StoreUnavailable` if the file cannot be read."""
        with self._readable(table) as file:
            return stored.typed(file)

    def bytes(self, table: str, stored: StoredValue) -> bytes:
        """The bytes of a value of a table, of any length. Raises `StoreUnavailable`."""
        with self._readable(table) as file:
            try:
                return stored.bytes(file)
            except ValueError as error:
                raise OSError(str(error)) from error

    def _parsed(self, table: str) -> Table:
        stamp = self.stamps[FILES[table]]
        if table not in _last or _last[table][0] != stamp:
            ignored: Ignored = []
            with self._readable(table) as file:
                try:
                    found = _READERS[table](read_pickle_file(file), PickleNodes(file), ignored)
                except ValueError as error:
                    path = self._folder / FILES[table]
                    raise UnknownLayout(
                        f"'{path}' is not as langgraph dev writes it: {error}",
                        hint="the file may be an incomplete copy; no code of it was run",
                    ) from error
            _last[table] = stamp, found, ignored
        self.ignored += _last[table][2]
        return _last[table][1]

    @contextmanager
    def _readable(self, table: str) -> Iterator[BinaryIO]:
        file, path = self._file(table), self._folder / FILES[table]
        if file.closed:
            raise StoreUnavailable(f"'{path.parent}' is closed")
        try:
            yield file
        except OSError as error:
            raise StoreUnavailable(f"cannot read '{path}': {error}") from error

    def _file(self, table: str) -> BinaryIO:
        return self._files[FILES[table]]


# Keeps values in a temporary file until the files of `langgraph dev` are written.


_SHORT = 256
"""Values up to this size in bytes stay in memory."""


class Spool(Closing):
    """Values in a file without a name, in the folder where there is room for them anyway."""

    def __init__(self, folder: Path) -> None:
        self._file: BinaryIO = TemporaryFile(dir=folder)  # noqa: SIM115
        self._size = 0

    def kept(self, value: TypedBytes) -> StoredValue:
        """The value as an entry of a table. Raises `OSError`."""
        size = len(value.data)
        if size <= _SHORT:
            return StoredValue(value.type, value.data)
        self._file.seek(self._size)
        self._file.write(value.data)
        place = FilePosition(self._size, size, size, is_text=False)
        self._size += size
        return StoredValue(value.type, place, spool=self._file)

    def close(self) -> None:
        self._file.close()


# The file in which the dev server of LangGraph.js stores its checkpoints.
#
# The server keeps all threads in memory. Three seconds after a change it writes them to one JSON
# file, in place. Source: `storage/checkpoint.mjs` and `storage/persist.mjs` in
# `@langchain/langgraph-api`, 0.0.15 to 2.0.0, and `MemorySaver` in `memory.js` of
# `@langchain/langgraph-checkpoint`, 0.0.15 to 1.2.2:
#
#     {"json": {"storage": {thread: {namespace: {checkpoint id: [body, metadata, parent]}}},
#               "writes": {'["thread","namespace","checkpoint id"]':
#                          {"task id,idx": [task id, channel, value, task path]}}},
#      "meta": ...}
#
# Each body, metadata and value is JSON of LangGraph.js, in base64. The type tag is not stored. The
# task path is missing before 1.2. `meta` tells `superjson` which texts are bytes; it is not needed.


_MOST_VALUES = 5_000_000
"""A checkpoint with its writes has about 30 values; a value takes about 100 bytes of memory."""
_TAG = "json"
"""The only type of values that the server can load: it keeps no tags."""
_SHOWN = 60
"""Characters of a name in a message."""
_IDX = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_Fields = dict[str, Any]


class JavaScriptTables(Tables):
    """The tables of the file, all in memory. No value is stored apart."""

    def _open(self) -> tuple[dict[str, Stamp], dict[str, BinaryIO]]:
        """Read the file, again if the server writes it meanwhile.

        Raises `StoreUnavailable`, and `UnknownLayout` if no server wrote it.
        """
        path = self._folder / JAVASCRIPT
        with unchanging(path):
            for _ in range(TRIES):
                before = stamps(self._folder, (JAVASCRIPT,))
                data = read_regular(path, MOST_BYTES)
                if stamps(self._folder, (JAVASCRIPT,)) == before:
                    try:
                        self._parse(data)
                        return before, {}
                    except ValueError as error:
                        if abs(time.time() - path.stat().st_mtime) > WRITING_SECONDS:
                            raise UnknownLayout(
                                f"'{path}' is not as the server of LangGraph.js writes it: {error}",
                                hint="the server writes it in place: it is cut off if the server"
                                " was killed meanwhile, or if the copy is incomplete",
                            ) from error
                time.sleep(PAUSE_SECONDS)
        raise being_written(path)

    def _parse(self, data: bytes) -> None:
        self.ignored.clear()
        root = _object(_object(_parsed(data, self.ignored)).get("json"))
        nodes = JsonNodes()
        self._known = {
            CHECKPOINT_TABLE: read_checkpoints(root.get("storage"), nodes, self.ignored),
            WRITE_TABLE: read_writes(root.get("writes"), nodes, self.ignored),
            BLOB_TABLE: {},
        }

    def _file(self, table: str) -> BinaryIO:  # noqa: ARG002 - no value is left in the file
        return io.BytesIO()


def _parsed(data: bytes, ignored: Ignored) -> Any:
    """The JSON value of a file. Raises ValueError if it is none, or is past a limit."""

    def fields(pairs: list[tuple[str, Any]]) -> _Fields:
        found = dict(pairs)
        if len(found) < len(pairs):
            # As for JavaScript, the last one counts.
            ((again, _),) = Counter(name for name, _ in pairs).most_common(1)
            ignored.append(f"an earlier value of {_shown(again)}, which occurs twice")
        return found

    if not data:
        raise ValueError("it is empty")
    try:
        # As Node reads it, which replaces what is no UTF-8.
        text = data.decode("utf-8-sig", "replace")
        if sum(map(text.count, "[{,")) > _MOST_VALUES:
            raise ValueError(f"it has more than {_MOST_VALUES} values")
        decoder = json.JSONDecoder(
            object_pairs_hook=fields, parse_int=integer, parse_constant=_no_number
        )
        return decoder.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error.msg} at character {error.pos + 1}") from error


def _no_number(name: str) -> object:
    raise ValueError(f"no JSON: {name}")


class JsonNodes:
    """Reads the parsed JSON of the file, as `PickleNodes` reads pickles."""

    def items(self, node: Any) -> Iterable[tuple[str, Any]]:
        return _object(node).items()

    def fields(self, node: Any, names: str, *lengths: int) -> Sequence[Any]:  # noqa: ARG002
        if not isinstance(node, list) or len(node) not in lengths:
            raise ValueError(f"{_kind_of_json(node)} instead of a list of {lengths[0]}")
        return node

    def text(self, node: Any) -> str:
        if not isinstance(node, str):
            raise ValueError(f"{_kind_of_json(node)} instead of text")
        return node

    def stored(self, node: Any) -> StoredValue:
        if not isinstance(node, str):
            return StoredValue(_TAG, b"", f"{_kind_of_json(node)} instead of base64")
        try:
            return StoredValue(_TAG, b64decode(node, validate=True))
        except ValueError:
            return StoredValue(_TAG, b"", "its text is not base64")

    def place(self, key: str) -> EntryKey:
        try:
            found = json.loads(key)
        except (ValueError, RecursionError):
            raise ValueError(f"no key of a checkpoint: {_shown(key)}") from None
        return tuple(map(self.text, self.fields(found, "a checkpoint", 3)))

    def task(self, key: str, task_id: str) -> tuple[str, int]:
        own, _, idx = key.rpartition(",")
        if own != task_id or not _IDX.fullmatch(idx):
            raise ValueError(f"it has the key of another one: {_shown(key)}")
        return own, int(idx)


def _object(value: Any) -> _Fields:
    if not isinstance(value, dict):
        raise ValueError(f"{_kind_of_json(value)} instead of an object")
    return value


_KINDS = {type(None): "nothing", dict: "an object", str: "a text", bool: "true or false"}


def _kind_of_json(value: Any) -> str:
    """What JSON value something is, for a message."""
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return _KINDS.get(type(value), "a number")


def _shown(name: str) -> str:
    """The beginning of a name, for a message."""
    return f"'{name[:_SHOWN]}{'…' if len(name) > _SHOWN else ''}'"


# Detects whether `langgraph dev` is running on a folder. It would overwrite every change.
#
# The server takes no lock. It writes its files every 10 seconds and when it stops. Some releases,
# such as langgraph-runtime-inmem 0.36, write the checkpoint files only when the server stops. So
# the server counts as running if its other files changed recently. On Linux it also counts as
# running if a `langgraph` process has the parent of `.langgraph_api` as its working folder.


QUIET_SECONDS = 20
"""A running server writes its files at least once in this time: twice its interval."""
SERVERS_OWN = ".langgraph_ops.pckl"
"""The server's threads with their last values, and its runs with their inputs."""
SERVERS_MEMORY = ("store.pckl", "store.vectors.pckl")
SERVERS_FILES = (SERVERS_OWN, ".langgraph_retry_counter.pckl", *SERVERS_MEMORY)
"""Files that the server writes and `ckpt` never writes."""
JAVASCRIPT_FILES = (".langgraphjs_ops.json", ".langgraphjs_api.store.json")
"""Files that the server of LangGraph.js writes three seconds after a change."""
_MODULES = ("langgraph_api", "langgraph_cli")
_PACKAGES = ("@langchain/langgraph-api/", "@langchain/langgraph-cli/")


def running(folder: Path, files: Iterable[str] = SERVERS_FILES) -> str:
    """Why a server probably runs on the folder; `''` if none does. `files` are those of its own."""
    for pid, words in platform.processes():
        if _is_server(words) and platform.works_in(pid, folder.parent):
            return f"process {pid} is its server"
    for name in files:
        try:
            age = time.time() - (folder / name).stat().st_mtime
        except OSError:
            continue
        if age < QUIET_SECONDS:
            return f"its server wrote {name} less than {QUIET_SECONDS} seconds ago"
    return ""


def _is_server(words: list[str]) -> bool:
    """Whether a command line is that of `langgraph dev` or of a process that it starts."""
    if any(word.startswith(_MODULES) or any(one in word for one in _PACKAGES) for word in words):
        return True
    names = [os.path.basename(word) for word in words]
    return "langgraph" in names and "dev" in names[names.index("langgraph") :]
