"""Folders of `langgraph dev`.

LangGraph's in-memory saver on files, as `langgraph dev` configures it.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Annotated, Any, ClassVar, TypedDict

from langgraph.checkpoint.memory import InMemorySaver, PersistentDict
from langgraph.types import interrupt

from ckpt_backends.testing.harness import Harness, StoredRows, TestServer
from tests.kit.agents.small import chain


class FileSaver(InMemorySaver):
    """Stores its files when `sync` is called, as the server does every 10 seconds."""

    def __init__(self, folder: Path, *, at_each_put: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._at_each_put = at_each_put
        self._lock = RLock()
        self._names = iter((1, 2, 3))
        super().__init__(factory=self._make)  # type: ignore[arg-type]

    def _make(self, *args: Any) -> PersistentDict:
        name = self.folder / f".langgraph_checkpoint.{next(self._names)}.pckl"
        made = PersistentDict(*args, filename=os.fspath(name))
        if name.exists():
            made.load()
        return made

    @property
    def tables(self) -> list[PersistentDict]:
        return [self.storage, self.writes, self.blobs]  # type: ignore[list-item]

    def sync(self) -> None:
        """Store all files, as the server does when it ends."""
        with self._lock:
            for table in self.tables:
                table.sync()

    def put(self, *args: Any, **named: Any) -> Any:
        with self._lock:
            done = super().put(*args, **named)
            if self._at_each_put:
                self.sync()
        return done

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        # LangGraph inspects the signature, and leaves out the path if there is no such parameter.
        with self._lock:
            super().put_writes(config, writes, task_id, task_path)


def stored(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


class FollowingSaver(FileSaver):
    """Continues with what others stored, like a server after a restart."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.sync()
        self._seen = _stamps(folder)

    def get_tuple(self, *args: Any, **named: Any) -> Any:
        self.follow()
        return super().get_tuple(*args, **named)

    def list(self, *args: Any, **named: Any) -> Any:
        self.follow()
        return super().list(*args, **named)

    def follow(self) -> None:
        """Read the files again if another process has stored them."""
        with self._lock:
            if _stamps(self.folder) != self._seen:
                for table in self.tables:
                    table.clear()
                    table.load()
                self._seen = _stamps(self.folder)

    def store(self) -> None:
        """Store the files; first read them again if another process has stored them."""
        with self._lock:
            self.follow()
            self.sync()
            self._seen = _stamps(self.folder)


def _stamps(folder: Path) -> list[tuple[int, int]]:
    return [(one.stat().st_ino, one.stat().st_mtime_ns) for one in sorted(folder.iterdir())]


class State(TypedDict):
    items: Annotated[list[str], lambda old, new: old + new]


def graph_of(saver: Any) -> Any:
    """A subgraph, and a question behind it."""
    inner = chain(State, {"deep": lambda state: {"items": ["deep"]}}).compile()
    asks = {"inner": inner, "ask": lambda state: {"items": [interrupt("which?")]}}
    return chain(State, asks).compile(checkpointer=saver)


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
