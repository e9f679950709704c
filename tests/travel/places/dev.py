"""Folders of `langgraph dev`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.dev import FollowingSaver
from tests.travel.places.place import Rows


class DevPlace:
    """A folder with a server that is stopped before `ckpt` runs, and restarted afterwards."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._saver = FollowingSaver(folder)

    @property
    def url(self) -> str:
        self._saver.store()
        return str(self._folder)

    def saver(self) -> Any:
        self._saver.follow()
        return self._saver

    def rows(self, thread_id: str) -> Rows:
        saver = self.saver()
        return {
            "checkpoints": sorted(
                (ns, one, parent, *body, *metadata)
                for ns, rows in saver.storage.get(thread_id, {}).items()
                for one, (body, metadata, parent) in rows.items()
            ),
            "writes": sorted(
                (*key[1:], *task, *row)
                for key, rows in saver.writes.items()
                if key[0] == thread_id
                for task, row in rows.items()
            ),
            "blobs": sorted(
                (*key[1:], *blob) for key, blob in saver.blobs.items() if key[0] == thread_id
            ),
        }

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        saver = self.saver()
        saver.storage[new_id] = defaultdict(dict)
        for ns, rows in saver.storage[thread_id].items():
            kept = {one: row for one, row in rows.items() if one <= until}
            saver.storage[new_id].update({ns: kept} if kept else {})
        for key, rows in list(saver.writes.items()):
            if key[0] == thread_id and key[2] <= until:
                saver.writes[new_id, *key[1:]] = dict(rows)
        for key, blob in list(saver.blobs.items()):
            if key[0] == thread_id:
                saver.blobs[new_id, *key[1:]] = blob

    def has_memory(self, thread_id: str) -> bool:
        return any(ns and ":" not in ns for ns in self.saver().storage[thread_id])

    def forget(self, thread_id: str) -> None:
        self.saver().delete_thread(thread_id)


@contextmanager
def dev_place(folder: Path) -> Iterator[DevPlace]:
    yield DevPlace(folder)
