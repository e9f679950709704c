"""Reads the file in which the dev server of LangGraph.js stores its checkpoints.

The server keeps all threads in memory. Three seconds after a change it writes them to one JSON
file, in place. Source: `storage/checkpoint.mjs` and `storage/persist.mjs` in
`@langchain/langgraph-api`, 0.0.15 to 2.0.0, and `MemorySaver` in `memory.js` of
`@langchain/langgraph-checkpoint`, 0.0.15 to 1.2.2:

    {"json": {"storage": {thread: {namespace: {checkpoint id: [body, metadata, parent]}}},
              "writes": {'["thread","namespace","checkpoint id"]':
                         {"task id,idx": [task id, channel, value, task path]}}},
     "meta": ...}

Each body, metadata and value is JSON of LangGraph.js, in base64. The type tag is not stored. The
task path is missing before 1.2. `meta` tells `superjson` which texts are bytes; it is not needed.
"""

from __future__ import annotations

import io
import json
import re
import time
from base64 import b64decode
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO

from ckpt_backends.codec.json import integer
from ckpt_backends.codec.values import MOST_BYTES
from ckpt_backends.errors import UnknownLayout
from ckpt_backends.files import read_regular
from ckpt_backends.langgraph_dev.declaration import JAVASCRIPT, JAVASCRIPT_LAYOUT
from ckpt_backends.langgraph_dev.files import (
    JAVASCRIPT_FILES,
    PAUSE_SECONDS,
    TRIES,
    WRITING_SECONDS,
    Checkpoints,
    Files,
    Ignored,
    StoredCheckpoint,
    StoredValue,
    StoredWrite,
    Tables,
    WriteKey,
    Writes,
    being_written,
    running,
    stamps,
    tolerant,
    unchanging,
)
from ckpt_backends.langgraph_dev.store import DevStore
from ckpt_backends.model import CheckpointKey

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

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.blobs = {}

    def _open(self, folder: Path) -> Files:
        self.checkpoints, self.writes, ignored, files = _read(folder)
        self.ignored += ignored
        return files

    def _file(self, name: str) -> BinaryIO:  # noqa: ARG002 - no value is left in the file
        return io.BytesIO()


class JavaScriptDevStore(DevStore):
    """A folder of the dev server of LangGraph.js, opened for reading."""

    layout = JAVASCRIPT_LAYOUT
    engine = "JSON file"
    names = (JAVASCRIPT,)

    def _read(self) -> Tables:
        return JavaScriptTables(self._folder)

    def _saver(self) -> str:
        has_paths = any(
            write.task_path is not None
            for rows in self._tables.writes.values()
            for write in rows.values()
        )
        since = " 1.2 or later" if has_paths else ""
        return f"LangGraph.js checkpoint{since}, MemorySaver of its dev server"

    def _running(self) -> str:
        return running(self._folder, JAVASCRIPT_FILES)

    def sources(self, key: CheckpointKey) -> list[str]:
        path = self._folder / JAVASCRIPT
        place = json.dumps(key, separators=(",", ":"), ensure_ascii=False)
        names = "".join(f"[{json.dumps(one, ensure_ascii=False)}]" for one in key)
        return [
            f"{path} .json.storage{names}",
            f"{path} .json.writes[{json.dumps(place, ensure_ascii=False)}]",
        ]


def _read(folder: Path) -> tuple[Checkpoints, Writes, Ignored, Files]:
    """Read and parse the file, again if the server writes it meanwhile.

    Raises `StoreUnavailable`, and `UnknownLayout` if no server wrote it.
    """
    path = folder / JAVASCRIPT
    with unchanging(path):
        for _ in range(TRIES):
            before = stamps(folder, (JAVASCRIPT,))
            data = read_regular(path, MOST_BYTES)
            if stamps(folder, (JAVASCRIPT,)) == before:
                try:
                    return *_tables(data), Files(folder, before, {})
                except ValueError as error:
                    if abs(time.time() - path.stat().st_mtime) > WRITING_SECONDS:
                        raise _not_as_written(path, error) from error
            time.sleep(PAUSE_SECONDS)
    raise being_written(path)


def _not_as_written(path: Path, reason: ValueError) -> UnknownLayout:
    return UnknownLayout(
        f"'{path}' is not as the server of LangGraph.js writes it: {reason}",
        hint="the server writes it in place: it is cut off if the server was killed meanwhile, or"
        " if the copy is incomplete",
    )


def _tables(data: bytes) -> tuple[Checkpoints, Writes, Ignored]:
    """What a file holds. Raises ValueError if no server wrote it."""
    ignored: Ignored = []
    root = _object(_object(_parsed(data, ignored)).get("json"))
    return _checkpoints(root, ignored), _writes(root, ignored), ignored


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


def _checkpoints(root: _Fields, ignored: Ignored) -> Checkpoints:
    """The checkpoints by thread, namespace and id. Raises ValueError if they are no object."""
    threads: Checkpoints = {}
    for thread_id, in_thread in _object(root.get("storage")).items():
        with tolerant(ignored, "a thread"):
            namespaces: dict[str, dict[str, StoredCheckpoint]] = {}
            for ns, in_ns in _object(in_thread).items():
                with tolerant(ignored, "a namespace"):
                    rows = namespaces.setdefault(ns, {})
                    for checkpoint_id, row in _object(in_ns).items():
                        with tolerant(ignored, "a checkpoint"):
                            body, metadata, parent = _list(row, 3)
                            rows[checkpoint_id] = StoredCheckpoint(
                                _stored(body),
                                _stored(metadata),
                                None if parent is None else _text(parent),
                            )
            threads[thread_id] = namespaces
    return threads


def _writes(root: _Fields, ignored: Ignored) -> Writes:
    """The writes by checkpoint, and by task and idx. Raises ValueError if they are no object."""
    writes: Writes = {}
    for name, rows in _object(root.get("writes")).items():
        with tolerant(ignored, "a checkpoint's writes"):
            of_one = writes.setdefault(_place(name), {})
            for task, row in _object(rows).items():
                with tolerant(ignored, "a write"):
                    task_id, channel, value, *path = _list(row, 3, 4)
                    own, _, idx = task.rpartition(",")
                    if own != task_id or not _IDX.fullmatch(idx):
                        raise ValueError(f"it has the key of another one: {_shown(task)}")
                    of_one[own, int(idx)] = StoredWrite(
                        _text(channel), _stored(value), _text(path[0]) if path else None
                    )
    return writes


def _place(name: str) -> WriteKey:
    """The thread, namespace and checkpoint id in the key of writes."""
    try:
        key = json.loads(name)
    except (ValueError, RecursionError):
        raise ValueError(f"no key of a checkpoint: {_shown(name)}") from None
    thread_id, ns, checkpoint_id = map(_text, _list(key, 3))
    return thread_id, ns, checkpoint_id


def _stored(value: Any) -> StoredValue:
    """A value. If it is no base64, `problem` is set."""
    if not isinstance(value, str):
        return StoredValue(_TAG, b"", f"{_kind(value)} instead of base64")
    try:
        return StoredValue(_TAG, b64decode(value, validate=True))
    except ValueError:
        return StoredValue(_TAG, b"", "its text is not base64")


def _object(value: Any) -> _Fields:
    if not isinstance(value, dict):
        raise ValueError(f"{_kind(value)} instead of an object")
    return value


def _list(value: Any, *lengths: int) -> list[Any]:
    if not isinstance(value, list) or len(value) not in lengths:
        raise ValueError(f"{_kind(value)} instead of a list of {lengths[0]}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{_kind(value)} instead of text")
    return value


def _kind(value: Any) -> str:
    """What JSON value something is, for a message."""
    match value:
        case None:
            return "nothing"
        case dict():
            return "an object"
        case list():
            return f"a list of {len(value)}"
        case str():
            return "a text"
    return "a number" if type(value) is not bool else "true or false"


def _shown(name: str) -> str:
    """The beginning of a name, for a message."""
    return f"'{name[:_SHOWN]}{'…' if len(name) > _SHOWN else ''}'"
