"""What a tab shows, of which checkpoint, and how that is called."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from ckpt_backends.model import CheckpointKey, Thread, step_of
from ckpt_backends.protocol import Store
from ckpt_cli.core.refs import short_refs
from ckpt_cli.core.resume import UserMetadata
from ckpt_cli.core.state import read_metadata
from ckpt_cli.core.tasks import node_path, path_text
from ckpt_cli.core.tree import Key, StepDetails
from ckpt_cli.queries.history import made_by
from ckpt_cli.queries.replay import KeptReplay
from ckpt_cli.queries.tree import Tree
from ckpt_cli.reading.store import carried_metadata
from ckpt_cli.reading.target import Target
from ckpt_cli.reading.thread import Moment, ThreadReader
from ckpt_cli.render.table import step_number
from ckpt_cli.render.text import Ui, safe_text
from ckpt_cli.tui.panes.document import TabContent

CheckpointTab = Literal["state", "diff", "writes", "messages", "metadata", "raw"]
ThreadTab = Literal["timeline", "errors", "findings", "memory", "compat"]
Tab = Literal[CheckpointTab, ThreadTab]
TABS: tuple[Tab, ...] = (
    *("state", "diff", "writes", "messages", "timeline"),
    *("errors", "findings", "metadata", "raw", "memory"),
)
WITH_GRAPHS: tuple[Tab, ...] = (*TABS, "compat")
"""The tabs if the user told which graph is to be deployed."""


def base_of(marked: CheckpointKey | None, place: CheckpointKey) -> CheckpointKey | None:
    """Return the checkpoint that a diff starts at; None for the parent of `place`.

    It is the marked one, unless the marked one itself is shown.
    """
    return None if marked == place else marked


def carried_from(store: Store, key: CheckpointKey) -> UserMetadata:
    """Return the metadata with which a graph resumes from a checkpoint; none if it is gone."""
    for one in store.checkpoints_at([key], metadata=True):
        return carried_metadata(store, read_metadata(one))
    return {}


class KeptReader:
    """The reader of one thread, kept until the thread or its store changes.

    It remembers the keys of all checkpoints, so that going to the next one does not read them
    again. Used by one worker only.
    """

    def __init__(self) -> None:
        self._reader: ThreadReader | None = None
        self.replay = KeptReplay()
        """What is known about the reducers of the thread."""

    def of(self, store: Store, thread_id: str, place: CheckpointKey | None = None) -> ThreadReader:
        """Return a reader of a thread. Raises `NotFound`.

        If only `place` is read with it, the thread may have grown since: new checkpoints change
        nothing about an older one that was not the head.
        """
        thread, kept = store.thread(thread_id), self._reader
        if kept is None or kept.store is not store or kept.thread != thread:
            if kept is not None and kept.store is store and _has_grown(kept, thread, place):
                return kept
            kept = self._reader = ThreadReader(store, thread_id if thread is None else thread)
        return kept


def _has_grown(kept: ThreadReader, thread: Thread | None, place: CheckpointKey | None) -> bool:
    """Return whether a thread has more checkpoints now, and knew one that was not its head."""
    if thread is None or place is None or kept.thread_id != thread.thread_id:
        return False
    if thread.checkpoints <= kept.thread.checkpoints:
        return False
    older = kept.index(place.checkpoint_ns)[1:]
    return any(one.key.checkpoint_id == place.checkpoint_id for one in older)


def target_of(store: Store, place: CheckpointKey, kept: KeptReader | None = None) -> Target:
    """Return the checkpoint for the functions of `reading`. Raises `NotFound`."""
    reader = (KeptReader() if kept is None else kept).of(store, place.thread_id, place)
    return Target(reader, place.checkpoint_ns, place.checkpoint_id, chosen=True)


def name_in_tree(tree: Tree, key: Key) -> str:
    """Return `step 7 · book · 6a3c` as far as the tree knows it; nothing is read."""
    ns, checkpoint_id = key
    details = tree.details.get(key) or StepDetails(step=step_of(checkpoint_id))
    nodes = details.ran or (details.source or "",)
    return _name(details.step, nodes, tree.refs.get(checkpoint_id, checkpoint_id), ns)


def name_of(
    moment: Moment, reader: ThreadReader, refs: Mapping[str, str], *, with_thread: bool
) -> str:
    """Return the same name of a checkpoint that was read; nodes and unknown refs are read."""
    ns, checkpoint_id = moment.key.checkpoint_ns, moment.key.checkpoint_id
    if checkpoint_id not in refs:
        refs = short_refs([one.key.checkpoint_id for one in reader.index(ns)])
    nodes = made_by(reader, moment) or (moment.source or "?",)
    outer = [moment.key.thread_id] if with_thread else []
    return _name(moment.number, nodes, refs[checkpoint_id], ns, *outer)


def _name(step: int | None, nodes: Iterable[str], ref: str, checkpoint_ns: str, *outer: str) -> str:
    """Return a name after the calls that lead to it: `research > step 7 · book · 6a3c`."""
    parts = f"step {step_number(step)}", ", ".join(dict.fromkeys(nodes)), ref
    inner = node_path(checkpoint_ns, [" · ".join(filter(None, parts))])
    return safe_text(path_text((*outer, *inner)))


@dataclass(frozen=True, slots=True)
class Subject:
    """What the tabs are about: a checkpoint, and what the tree knows about it."""

    thread: Thread
    """The thread as it was listed."""
    place: CheckpointKey
    name: str
    refs: Mapping[str, str]
    """The short refs that are known, by checkpoint id."""
    base: CheckpointKey | None = None
    """Where a diff starts; None for the parent."""
    base_name: str = ""
    follows: bool = False
    """Whether the cursor follows the head."""


@dataclass(frozen=True, slots=True)
class TabQuestion:
    """What a tab is to read, and what it is drawn for."""

    subject: Subject
    ui: Ui
    is_again: bool
    """Whether the tab shows the same checkpoint or thread already."""


class InspectorTab(ABC):
    """One tab of the inspector: it knows how to read what it shows, in a worker."""

    loading: ClassVar[str]
    """The title while it is read."""
    is_of_thread = True
    """Whether it is about the whole thread, in place of one checkpoint."""
    refresh_after: float | None = None
    """Seconds after which it is read again; None if only a change makes it stale."""
    titled = ""
    """What its title says of the thread; empty if it is the name of the checkpoint."""
    drawn: object = None
    """What the content was drawn from that was read last; None if it must be read again."""

    def heading(self, subject: Subject) -> str:
        """Return its title."""
        thread_id = subject.thread.thread_id
        return f"{self.titled} {safe_text(thread_id)}" if self.titled else subject.name

    @abstractmethod
    async def read(self, asked: TabQuestion) -> TabContent:
        """Read it. Raises `CkptError`."""

    def source(self, asked: TabQuestion) -> object:
        """Return what it is drawn from: the same again if it would read the same."""
        return asked.subject.thread, asked.ui.width

    def is_current(self, asked: TabQuestion) -> bool:
        """Return whether it would read the same again."""
        return self.drawn == self.source(asked)

    @abstractmethod
    def command(self, store: Sequence[str], subject: Subject) -> str | None:
        """Return the command that prints it; None if no command does."""

    def signed(self, subject: Subject) -> tuple[int | None, bool] | None:
        """Return the line with the sign of the checkpoint, and whether the cursor goes there.

        None if the tab has no such sign.
        """
        del subject
        return None

    def forget(self) -> None:
        """Read it again when it is asked for, even if nothing has changed."""
        self.drawn = None
