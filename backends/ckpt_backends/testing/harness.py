"""The harness of a layout: a store that its official saver fills and that `ckpt` reads and changes.

The conformance suite in `ckpt_backends.testing.conformance` runs on every harness. A simple one
has four parts: `name`, `create`, `saver` and `fingerprint`. All else has a default, and is there to
declare what a saver or an engine does differently.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeAlias

if TYPE_CHECKING:
    import pytest

    from ckpt_backends.testing.counting import Count
    from ckpt_backends.testing.library import Library

Refusal: TypeAlias = type[Exception] | tuple[type[Exception], ...]
StoredRows: TypeAlias = dict[str, list[tuple[Any, ...]]]
"""The rows of a thread by table, or by kind of key, without the thread's id."""
POINTERS = "checkpoint_latest"
"""Keys in Redis that point to the heads, and change with them."""
ROW_KINDS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("checkpoints", "checkpoint"), "checkpoint"),
        **dict.fromkeys(("writes", "checkpoint_writes", "checkpoint_write"), "write"),
        **dict.fromkeys(("checkpoint_blobs", "checkpoint_blob"), "value"),
        **dict.fromkeys(
            (POINTERS, "write_keys_zset", "write_registry", "idx", "thread", "threads"), "index"
        ),
    }
)
"""What rows hold, by the names of tables in LangGraph's own savers."""


class TestServer(Protocol):
    """A server that the tests started, or that they were given."""

    url: str


class Harness(ABC):
    """One layout: its store, empty at first, and the official saver that fills it."""

    name: ClassVar[str]
    """The name of the layout in the ids of the tests. Unique in a run."""
    server: ClassVar[str | None] = None
    """The kind of server that `create` is given; None if it needs none or starts its own.

    The suite asks the hook `pytest_ckpt_server` for it.
    """
    read_only: ClassVar[bool] = False
    """Whether the backend declares no `changes`. If so, each command that changes a store must be
    refused, and the tests of changes are left out."""

    # What the saver stores.
    has_history: ClassVar[bool] = True
    """Whether it keeps all checkpoints of a namespace, not only the newest."""
    has_writes: ClassVar[bool] = True
    """Whether it stores writes, questions and errors of tasks before they are merged."""
    has_task_paths: ClassVar[bool] = True
    """Whether it stores the path of each task, which gives parallel writes their order."""
    values_only: ClassVar[bool] = False
    """Whether it stores only the ids, the values and the writes of a checkpoint.

    There are no metadata and no versions, so steps, sources and next nodes are unknown.
    """
    newest_values_only: ClassVar[bool] = False
    """Whether it stores the values of the newest checkpoint only, though it lists others."""
    stores_pickles: ClassVar[bool] = False
    """Whether it pickles values, so that tuples and the classes of nested objects are preserved."""
    omits_defaults: ClassVar[bool] = False
    """Whether it stores objects under an old path of their class, without default values."""
    values_as_documents: ClassVar[bool] = False
    """Whether the engine stores values as parsed documents, which need more space than their
    text. Set it if `Store.size` gives the size of the documents."""
    values_as_text: ClassVar[bool] = False
    """Whether values are stored inside a text, such as JSON with base64, which is longer than the
    values. Set it if `Store.size` gives the size of that text."""
    writes_in_one_row: ClassVar[bool] = False
    """Whether all writes of a checkpoint are stored in one row."""
    row_kinds: ClassVar[Mapping[str, str]] = ROW_KINDS
    """What the rows of `Store.rows` hold, by `Row.table`: "checkpoint", "write", "value" (a value
    that is stored apart) or "index" (what only names other rows)."""

    # What the saver does differently from LangGraph's own.
    failing_scenarios: ClassVar[frozenset[str]] = frozenset()
    """Scenarios in which the saver raises `scenario_errors`, since it cannot store a value or has
    no history to go back to. What was stored until then is compared."""
    scenario_errors: ClassVar[Refusal] = Exception
    """What the saver raises in `failing_scenarios`."""
    skipped_scenarios: ClassVar[frozenset[str]] = frozenset()
    """Scenarios that are not run, since the saver stores their values only partly: there is no
    truth to compare with."""
    only_scenarios: ClassVar[frozenset[str] | None] = None
    """The scenarios to run; None for all. For a layout of which another harness runs all."""
    run_options: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Arguments for each run of a graph, such as `{"durability": "sync"}` for a saver that loses
    writes which arrive late."""
    known_mismatches: ClassVar[frozenset[tuple[str, int, str]]] = frozenset()
    """(thread, step, channel) of values that do not follow from the writes, because the saver
    stores them differently or another branch overwrites them. `ckpt replay` must find these."""
    unverifiable: ClassVar[frozenset[str]] = frozenset()
    """Words of further reasons for which `ckpt replay` may say that it cannot verify a step."""
    writes_by_arrival: ClassVar[bool] = False
    """Whether the saver returns the writes of a checkpoint in order of arrival."""

    excludes_writers: ClassVar[bool] = False
    """Whether nobody can write between a read of a `Store` and its `refresh`, because the engine
    locks the whole file."""

    # A layout whose saver does not run in Python.
    recording: ClassVar[str | None] = None
    """The stored fixture from which the store is restored, in place of running scenarios."""

    def __init__(self, folder: Path, server: TestServer | None = None) -> None:
        self.stack = ExitStack()
        """What is closed when the harness is closed. `create` may add to it."""
        self._url = self.create(folder, server)

    @classmethod
    def at(cls, url: str) -> Self:
        """Return the harness of a store that exists; an empty file or database counts as one."""
        made = cls.__new__(cls)
        made.stack, made._url = ExitStack(), url
        return made

    @property
    def url(self) -> str:
        """The URL for `ckpt -s`."""
        return self._url

    @abstractmethod
    def create(self, folder: Path, server: TestServer | None) -> str:
        """Create an empty store, and return its URL.

        `folder` is empty and belongs to this store. `server` is of the kind that `server` names.
        A server of its own is started here, with `self.stack.callback(stop)` to end it.
        """

    @abstractmethod
    def saver(self) -> AbstractContextManager[Any]:
        """Yield the official saver of the layout, ready to use. Called many times for a store."""

    @abstractmethod
    def fingerprint(self) -> object:
        """Return a value that stays equal as long as nothing in the store changes: the bytes of
        its file, a hash of its tables. It must not use `ckpt`.
        """

    @cached_property
    def kept_saver(self) -> Any:
        """The official saver, open until the harness is closed."""
        return self.stack.enter_context(self.saver())

    def corrected_saver(self, saver: Any) -> Any:
        """Return the saver for reading, with known faults of its reading corrected."""
        return saver

    def accepts_thread_id(self, thread_id: str) -> bool:
        """Return whether the saver can store a thread with this id."""
        return True

    def forget(self, thread_id: str) -> None:
        """Remove all rows of a thread, without `ckpt`. By default through the saver."""
        with self.saver() as saver:
            saver.delete_thread(thread_id)

    def rows(self, thread_id: str) -> StoredRows:
        """Return all rows of a thread, without `ckpt`, to see that a change keeps them.

        The sixth part of a row of checkpoints is its metadata, and the first two are namespace and
        checkpoint id. By default, it is what the saver reads; rows of the engine show more.
        """
        found: StoredRows = {"checkpoints": [], "writes": []}
        for one in self._tuples(thread_id):
            names = one.config["configurable"]
            parent = (one.parent_config or {}).get("configurable", {}).get("checkpoint_id", "")
            place = names["checkpoint_ns"], names["checkpoint_id"]
            body = repr(one.checkpoint)
            found["checkpoints"].append((*place, parent, body, "", repr(one.metadata)))
            found["writes"] += [(*place, *map(repr, write)) for write in one.pending_writes or ()]
        return {table: sorted(rows) for table, rows in found.items()}

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        """Copy a thread to a new id, up to a checkpoint in the order of ids, without `ckpt`.

        Checkpoint ids, and so task ids, stay the same, so LangGraph resumes the copy like the
        original. By default the saver puts again what it reads, which loses the paths of tasks.
        """
        saver = self.kept_saver
        for one in reversed(self._tuples(thread_id)):
            names = one.config["configurable"]
            if names["checkpoint_id"] > until:
                continue
            parent = (one.parent_config or {}).get("configurable", {}).get("checkpoint_id")
            place = {"thread_id": new_id, "checkpoint_ns": names["checkpoint_ns"]}
            before = {"configurable": {**place, **({"checkpoint_id": parent} if parent else {})}}
            versions = one.checkpoint["channel_versions"]
            stored = saver.put(before, one.checkpoint, one.metadata, versions)
            by_task: dict[str, list[tuple[str, Any]]] = {}
            for task_id, channel, value in one.pending_writes or ():
                by_task.setdefault(task_id, []).append((channel, value))
            for task_id, writes in by_task.items():
                saver.put_writes(stored, writes, task_id)

    def has_stateful_subgraph(self, thread_id: str) -> bool:
        """Return whether a subgraph of the thread keeps its state between calls."""
        namespaces = {
            one.config["configurable"]["checkpoint_ns"] for one in self._tuples(thread_id)
        }
        return any(ns and ":" not in ns for ns in namespaces)

    def _tuples(self, thread_id: str) -> list[Any]:
        """What the saver lists of a thread, newest first."""
        return list(self.kept_saver.list({"configurable": {"thread_id": thread_id}}))

    def add(self, thread_id: str) -> None:
        """Store a thread with one checkpoint, as another process would."""
        from langgraph.checkpoint.base import empty_checkpoint

        config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
        with self.saver() as saver:
            saver.put(config, empty_checkpoint(), {"source": "input", "step": -1}, {})

    def count(self) -> Count | None:
        """Return the contents of the store in numbers, as the engine counts them.

        None if this is not written: then `ckpt purge --dry-run` is compared with the receipt only.
        """
        return None

    def times(self, thread_id: str) -> tuple[datetime, datetime] | None:
        """Return the times of the first and the last checkpoint of a thread; None if its ids
        contain them.
        """
        return None

    @property
    def has_questions(self) -> bool:
        """Whether writes of unfinished tasks, such as questions, are stored."""
        return self.has_writes and not self.values_only

    def library(self, request: pytest.FixtureRequest) -> Library:
        """Return what runs graphs on this store: by default the installed LangGraph."""
        from ckpt_backends.testing.library import PythonLibrary

        return PythonLibrary(self)

    def restore_recording(self, only: frozenset[str] | None = None) -> None:
        """Restore the threads of the `recording`, or some of them, into the empty store."""
        raise TypeError("it has no recording")

    def recorded_truth(self) -> dict[str, Any]:
        """Return what the library of the recording read from it, by thread, as `truth.json`."""
        raise TypeError("it has no recording")

    def close(self) -> None:
        """Remove what was created."""
        self.stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
