"""Writes the tables as pickles of dicts, tuples, texts, numbers, bytes and `defaultdict(dict)`.

Each thread must stay a `defaultdict`, because the saver relies on it to create new namespaces. Each
different text is stored once. Values are copied from file to file, one in memory at a time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import BinaryIO

from ckpt_backends.codec.pickle.set_keys import plain
from ckpt_backends.langgraph_dev.declaration import CHECKPOINTS
from ckpt_backends.langgraph_dev.files import BLOBS, WRITES
from ckpt_backends.langgraph_dev.layout import StoredValue
from ckpt_backends.langgraph_dev.tables import Tables

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
