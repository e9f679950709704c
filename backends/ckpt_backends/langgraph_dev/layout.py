"""The three tables of LangGraph's in-memory saver, which `langgraph dev` stores in files.

Each file is a pickle of one dict. Source: `InMemorySaver` and `PersistentDict` in
`langgraph.checkpoint.memory`.

1. thread -> namespace -> checkpoint id -> (body, metadata, parent); each thread is a
   `defaultdict(dict)`;
2. (thread, namespace, checkpoint id) -> (task id, idx) -> (task id, channel, value, task path);
3. (thread, namespace, channel, version) -> value, since langgraph-checkpoint 2.1. Earlier releases
   stored values in the bodies.

Each body, metadata and value is (type, bytes) or (type, bytearray). Pickle protocol 2 has no type
for bytes: it stores them as text and a call of `_codecs.encode(text, "latin1")`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

from ckpt_backends.codec.limits import MOST_BYTES, unread
from ckpt_backends.codec.pickle.file import FilePosition
from ckpt_backends.codec.pickle.machine import OLD_MODULES, Dict, Global, Node, Object
from ckpt_backends.model import TypedBytes

Version = str | int | float
WriteKey = tuple[str, str, str]
"""Thread, namespace and checkpoint id."""
BlobKey = tuple[str, str, str, Version]
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
Blobs = dict[BlobKey, StoredValue]


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
