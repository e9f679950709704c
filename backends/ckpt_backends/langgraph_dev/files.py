"""Finds and opens the files of `langgraph dev`, and finds the file of LangGraph.js.

The server for Python never changes a file in place: it writes `NAME.tmp` and renames that over the
old file. So an open file never changes. The server replaces its three files one after the other. To
get files of the same moment, `open_files` opens them again until none was replaced or is being
written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, TypeVar

from ckpt_backends import shell
from ckpt_backends.codec import decode
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
from ckpt_backends.files import open_regular
from ckpt_backends.langgraph_dev.declaration import (
    BACKEND,
    CHECKPOINTS,
    FOLDER,
    JAVASCRIPT,
    JAVASCRIPT_LAYOUT,
    LAYOUT,
    SUFFIX,
)
from ckpt_backends.model import CheckpointKey, TypedBytes
from ckpt_backends.url import StoreUrl

WRITES, BLOBS = (f".langgraph_checkpoint.{number}{SUFFIX}" for number in (2, 3))
NAMES = (CHECKPOINTS, WRITES, BLOBS)
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


@dataclass(slots=True)
class Files(Closing):
    """The three files of the same moment, opened for reading."""

    folder: Path
    stamps: Mapping[str, Stamp]
    opened: Mapping[str, BinaryIO]
    """By name; file 3 may be missing."""

    def close(self) -> None:
        for file in self.opened.values():
            file.close()


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


def open_files(folder: Path) -> Files:
    """Open all files of the same moment. Raises `StoreUnavailable`."""
    with unchanging(folder):
        for _ in range(TRIES):
            before = stamps(folder)
            if CHECKPOINTS not in before:
                raise FileNotFoundError
            files = Files(folder, before, {name: _open(folder / name) for name in before})
            if stamps(folder) == before and not _is_written(folder):
                return files
            files.close()
            time.sleep(PAUSE_SECONDS)
    raise being_written(folder)


def _open(path: Path) -> BinaryIO:
    return open_regular(path, buffering=_BUFFER)


def _is_written(folder: Path) -> bool:
    """Whether the server is writing a file. An old `.tmp` file was left by a killed server."""
    for name in NAMES:
        with suppress(FileNotFoundError):
            if time.time() - (folder / f"{name}.tmp").stat().st_mtime < WRITING_SECONDS:
                return True
    return False


# The three tables of LangGraph's in-memory saver, which `langgraph dev` stores in files.
#
# Each file is a pickle of one dict. Source: `InMemorySaver` and `PersistentDict` in
# `langgraph.checkpoint.memory`.
#
# 1. thread -> namespace -> checkpoint id -> (body, metadata, parent); each thread is a
#    `defaultdict(dict)`;
# 2. (thread, namespace, checkpoint id) -> (task id, idx) -> (task id, channel, value, task path);
# 3. (thread, namespace, channel, version) -> value, since langgraph-checkpoint 2.1. Earlier
#    releases
#    stored values in the bodies.
#
# Each body, metadata and value is (type, bytes) or (type, bytearray). Pickle protocol 2 has no
# type for bytes: it stores them as text and a call of `_codecs.encode(text, "latin1")`.


Version = str | int | float
WriteKey = tuple[str, str, str]
"""Thread, namespace and checkpoint id."""
ValueKey = tuple[str, str, str, Version]
"""Thread, namespace, channel and version."""


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A typed value: its bytes, or their place in the file."""

    type: str
    data: bytes | FilePosition
    problem: str = ""
    """Why it cannot be read."""

    @property
    def size(self) -> int:
        return self.data.size if isinstance(self.data, FilePosition) else len(self.data)

    def bytes(self, file: BinaryIO) -> bytes:
        """The bytes of the value. Raises OSError and ValueError."""
        if not isinstance(self.data, FilePosition):
            return self.data
        found = self.data.read(file)
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


Checkpoints = dict[str, dict[str, dict[str, StoredCheckpoint]]]
Writes = dict[WriteKey, dict[tuple[str, int], StoredWrite]]
Blobs = dict[ValueKey, StoredValue]


Ignored = list[str]
"""Descriptions of entries that no saver writes. A file with such entries is never written."""


def read_checkpoints(root: Node, file: BinaryIO, ignored: Ignored) -> Checkpoints:
    """Read file 1. Raises ValueError if it is not a dict."""
    threads: Checkpoints = {}
    for thread_id, in_thread in _items(root):
        with tolerant(ignored, "a thread"):
            namespaces: dict[str, dict[str, StoredCheckpoint]] = {}
            for ns, in_ns in _items(in_thread):
                with tolerant(ignored, "a namespace"):
                    rows = namespaces.setdefault(_text(ns, file), {})
                    for checkpoint_id, row in _items(in_ns):
                        with tolerant(ignored, "a checkpoint"):
                            rows[_text(checkpoint_id, file)] = _checkpoint(row, file)
            threads[_text(thread_id, file)] = namespaces
    return threads


def read_writes(root: Node, file: BinaryIO, ignored: Ignored) -> Writes:
    """Read file 2. Raises ValueError if it is not a dict."""
    writes: Writes = {}
    for key, rows in _items(root):
        with tolerant(ignored, "a checkpoint's writes"):
            thread_id, ns, checkpoint_id = _texts(key, 3, file)
            of_one = writes.setdefault((thread_id, ns, checkpoint_id), {})
            for task, row in _items(rows):
                with tolerant(ignored, "a write"):
                    place, write = _write(task, row, file)
                    of_one[place] = write
    return writes


def read_blobs(root: Node, file: BinaryIO, ignored: Ignored) -> Blobs:
    """Read file 3. Raises ValueError if it is not a dict."""
    blobs: Blobs = {}
    for key, value in _items(root):
        with tolerant(ignored, "a value"):
            if not isinstance(key, tuple) or len(key) != 4:
                raise ValueError("no key of a value")
            thread_id, ns, channel = _texts(key[:3], 3, file)
            blobs[thread_id, ns, channel, _version(key[3], file)] = _stored(value, file)
    return blobs


@contextmanager
def tolerant(ignored: Ignored, what: str) -> Iterator[None]:
    """Turn a ValueError into a description of an ignored entry."""
    try:
        yield
    except ValueError as error:
        ignored.append(f"{what}: {error}")


def _items(node: Node) -> Iterator[tuple[Node, Node]]:
    """The items of a dict or defaultdict. If a key occurs twice, the later item counts."""
    is_default = isinstance(node, Object) and _is(node.callee, "collections", "defaultdict")
    if not is_default and not isinstance(node, Dict):
        raise ValueError(f"{_kind(node)} instead of a dict")
    yield from node.pairs


def _checkpoint(row: Node, file: BinaryIO) -> StoredCheckpoint:
    if not isinstance(row, tuple) or len(row) != 3:
        raise ValueError(f"{_kind(row)} instead of body, metadata and parent")
    body, metadata, parent = row
    return StoredCheckpoint(
        _stored(body, file),
        _stored(metadata, file),
        None if parent is None else _text(parent, file),
    )


def _write(task: Node, row: Node, file: BinaryIO) -> tuple[tuple[str, int], StoredWrite]:
    if not isinstance(task, tuple) or len(task) != 2 or not _is_number(task[1]):
        raise ValueError("no key of a write")
    if not isinstance(row, tuple) or len(row) not in {3, 4}:
        raise ValueError(f"{_kind(row)} instead of task, channel, value and path")
    task_id, idx = _text(task[0], file), task[1]
    if _text(row[0], file) != task_id:
        raise ValueError("a write under the key of another task")
    path = _text(row[3], file) if len(row) == 4 else None
    return (task_id, idx), StoredWrite(_text(row[1], file), _stored(row[2], file), path)


def _stored(node: Node, file: BinaryIO) -> StoredValue:
    """A typed value. If something else is stored in place of its bytes, `problem` is set."""
    if not isinstance(node, tuple) or len(node) != 2:
        raise ValueError(f"{_kind(node)} instead of a type and bytes")
    tag, data = _text(node[0], file), _bytes(node[1])
    if data is None:
        return StoredValue(tag, b"", f"{_kind(node[1])} instead of bytes; no code of it was run")
    return StoredValue(tag, data)


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
            if encoding in _LATIN_1 and isinstance(text, str):
                return _latin(text)
            if encoding in _LATIN_1 and isinstance(text, FilePosition) and text.is_text:
                return text
        return None
    if isinstance(node, FilePosition) and node.is_text:
        return None
    return node if isinstance(node, bytes | FilePosition) else None


_LATIN_1 = ("latin1", "latin-1")


def _latin(text: str) -> bytes | None:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return None


def _texts(node: Node, length: int, file: BinaryIO) -> list[str]:
    if not isinstance(node, tuple) or len(node) != length:
        raise ValueError(f"{_kind(node)} as a key")
    return [_text(one, file) for one in node]


def _text(node: Node, file: BinaryIO) -> str:
    if isinstance(node, FilePosition) and node.is_text:
        return node.read(file).decode("utf-8", "surrogatepass")
    if not isinstance(node, str):
        raise ValueError(f"{_kind(node)} instead of text")
    return node


def _version(node: Node, file: BinaryIO) -> Version:
    if type(node) is float or _is_number(node):
        version: Version = node
        return version
    return _text(node, file)


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


# The contents of the files of one moment. Each file is parsed when it is first needed.


_Table = TypeVar("_Table")


@dataclass(frozen=True, slots=True)
class NamedValues:
    """The channel values that a checkpoint body names."""

    is_old: bool
    """Whether the body has a checkpoint format before 4."""
    places: dict[str, ValueKey]
    """By channel, the key of its value."""


def named(key: CheckpointKey, body: TypedBytes) -> NamedValues | None:
    """The values that a body names; None if the body cannot be read."""
    fields = decode(body)
    if not isinstance(fields, dict):
        return None
    versions = fields.get("channel_versions")
    return NamedValues(
        fields.get("v") in {1, 2, 3},
        {
            channel: (key.thread_id, key.checkpoint_ns, channel, version)
            for channel, version in (versions if isinstance(versions, dict) else {}).items()
            if isinstance(channel, str) and isinstance(version, str | int | float)
        },
    )


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A parsed file."""

    stamp: Stamp
    table: Any
    ignored: Ignored


_last: dict[str, _Parsed] = {}
"""Cache: by file name, the file that was parsed last. Commands that change something open the same
files twice, and `ckpt ui` opens them often. A replaced file is parsed again."""


class Tables(Closing):
    """The three tables. Values stay in the files.

    Do not change the dicts in place: other `Tables` may share them.
    """

    def __init__(self, folder: Path) -> None:
        self.ignored: Ignored = []
        self.files = self._open(folder)

    def _open(self, folder: Path) -> Files:
        return open_files(folder)

    def close(self) -> None:
        self.files.close()

    @cached_property
    def checkpoints(self) -> Checkpoints:
        return self._read(CHECKPOINTS, read_checkpoints, {})

    @cached_property
    def writes(self) -> Writes:
        return self._read(WRITES, read_writes, {})

    @cached_property
    def blobs(self) -> Blobs:
        return self._read(BLOBS, read_blobs, {})

    @cached_property
    def writes_of(self) -> dict[str, list[WriteKey]]:
        """By thread, the keys of `writes`."""
        found: dict[str, list[WriteKey]] = {}
        for key in self.writes:
            found.setdefault(key[0], []).append(key)
        return found

    @cached_property
    def blobs_of(self) -> dict[str, list[ValueKey]]:
        """By thread, the keys of `blobs`."""
        found: dict[str, list[ValueKey]] = {}
        for key in self.blobs:
            found.setdefault(key[0], []).append(key)
        return found

    def value(self, name: str, stored: StoredValue) -> TypedBytes:
        """A value of the file `name`. Raises `StoreUnavailable` if the file cannot be read."""
        try:
            return stored.typed(self._file(name))
        except OSError as error:
            raise self._broken(name, error) from error

    def bytes(self, name: str, stored: StoredValue) -> bytes:
        """The bytes of a value of the file `name`, of any length. Raises `StoreUnavailable`."""
        try:
            return stored.bytes(self._file(name))
        except (OSError, ValueError) as error:
            raise self._broken(name, error) from error

    def _read(
        self, name: str, reader: Callable[[object, BinaryIO, Ignored], _Table], empty: _Table
    ) -> _Table:
        if name not in self.files.opened:
            return empty
        known = _last.get(name)
        if known is None or known.stamp != self.files.stamps[name]:
            known = _last[name] = self._parsed(name, reader)
        self.ignored += known.ignored
        table: _Table = known.table
        return table

    def _parsed(self, name: str, reader: Callable[[object, BinaryIO, Ignored], object]) -> _Parsed:
        file = self._file(name)
        ignored: Ignored = []
        try:
            table = reader(read_pickle_file(file), file, ignored)
        except OSError as error:
            raise self._broken(name, error) from error
        except ValueError as error:
            raise UnknownLayout(
                f"'{self.files.folder / name}' is not as langgraph dev writes it: {error}",
                hint="the file may be an incomplete copy; no code of it was run",
            ) from error
        return _Parsed(self.files.stamps[name], table, ignored)

    def _file(self, name: str) -> BinaryIO:
        file = self.files.opened[name]
        if file.closed:
            raise StoreUnavailable(f"'{self.files.folder}' is closed")
        return file

    def _broken(self, name: str, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(f"cannot read '{self.files.folder / name}': {error}")


# Keeps values in a temporary file until the files of `langgraph dev` are written.


_SHORT = 256
"""Values up to this size in bytes stay in memory."""


@dataclass(frozen=True, slots=True)
class SpooledValue(StoredValue):
    """A value whose bytes are in a file of its own."""

    spool: BinaryIO | None = None

    def bytes(self, file: BinaryIO) -> bytes:
        """The bytes of the value; `file` is not used if they are in the spool."""
        # Not super(): a dataclass with slots is made twice.
        return StoredValue.bytes(self, self.spool or file)


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
        return SpooledValue(value.type, place, spool=self._file)

    def close(self) -> None:
        self._file.close()


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
    for pid, words in _processes():
        if _is_server(words) and _is_in(pid, folder):
            return f"process {pid} is its server"
    for name in files:
        try:
            age = time.time() - (folder / name).stat().st_mtime
        except OSError:
            continue
        if age < QUIET_SECONDS:
            return f"its server wrote {name} less than {QUIET_SECONDS} seconds ago"
    return ""


def _processes() -> Iterator[tuple[str, list[str]]]:
    """On Linux, the visible processes: (process id, arguments of the command line)."""
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return
    for pid in pids:
        try:
            line = Path("/proc", pid, "cmdline").read_bytes()
        except OSError:
            continue
        yield pid, os.fsdecode(line).split("\0")


def _is_server(words: list[str]) -> bool:
    """Whether a command line is that of `langgraph dev` or of a process that it starts."""
    if any(word.startswith(_MODULES) or any(one in word for one in _PACKAGES) for word in words):
        return True
    names = [os.path.basename(word) for word in words]
    return "langgraph" in names and "dev" in names[names.index("langgraph") :]


def _is_in(pid: str, folder: Path) -> bool:
    try:
        return os.path.samefile(f"/proc/{pid}/cwd", folder.parent)
    except OSError:
        return False
