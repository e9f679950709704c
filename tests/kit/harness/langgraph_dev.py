"""Folders of `langgraph dev`."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ckpt_backends.testing.harness import Harness, StoredRows, TestServer
from tests.kit.savers.dev import FileSaver, FollowingSaver, stored


class DevHarness(Harness):
    """The in-memory saver, with its dicts in files."""

    name: ClassVar[str] = "langgraph-dev"

    def create(self, folder: Path, server: TestServer | None) -> str:
        return str(folder / ".langgraph_api")

    @property
    def path(self) -> Path:
        return Path(self._url)

    @property
    def url(self) -> str:
        if "_following" in self.__dict__:
            self._following.store()
        return super().url

    @cached_property
    def _following(self) -> FollowingSaver:
        return FollowingSaver(self.path)

    @property
    def kept_saver(self) -> Any:
        """A server that is stopped before `ckpt` runs, and restarted afterwards."""
        self._following.follow()
        return self._following

    @contextmanager
    def saver(self) -> Iterator[Any]:
        # Do not store at each `put` during the first fill, which would take long.
        saver = FileSaver(self.path, at_each_put=self.path.exists())
        yield saver
        saver.sync()

    def fingerprint(self) -> object:
        return stored(self.path)

    def rows(self, thread_id: str) -> StoredRows:
        saver = self.kept_saver
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
                (*key[1:], *it) for key, it in saver.blobs.items() if key[0] == thread_id
            ),
        }

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        saver = self.kept_saver
        saver.storage[new_id] = defaultdict(dict)
        for ns, rows in saver.storage[thread_id].items():
            kept = {one: row for one, row in rows.items() if one <= until}
            saver.storage[new_id].update({ns: kept} if kept else {})
        for key, rows in list(saver.writes.items()):
            if key[0] == thread_id and key[2] <= until:
                saver.writes[new_id, *key[1:]] = dict(rows)
        for key, it in list(saver.blobs.items()):
            if key[0] == thread_id:
                saver.blobs[new_id, *key[1:]] = it

    def forget(self, thread_id: str) -> None:
        self.kept_saver.delete_thread(thread_id)
        self._following.store()
