"""A thread of a store, as Python code sees it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from ckpt_cli.api.answer import Answer
from ckpt_cli.api.checkpoint import CheckpointHandle
from ckpt_cli.api.surroundings import Surroundings
from ckpt_cli.threads.target import NamedThread, Target
from ckpt_cli.threads.thread import ThreadReader

if TYPE_CHECKING:
    from ckpt_backends.codec.values import Value
    from ckpt_cli.queries.threads import Summary
    from ckpt_cli.queries.tree import Tree
    from ckpt_cli.render.terminal.styled_text import StyledLine

_WIDTH = 100
_QUESTION_WIDTH = 200
"""Width of a question that is kept; the tree cuts it to what fits."""


class ThreadHandle:
    """A thread: its head, its history, and what can be asked of it.

    Returned by `StoreHandle.threads`, `StoreHandle[...]` and others.
    """

    def __init__(self, reader: ThreadReader, around: Surroundings) -> None:
        self.reader = reader
        self.around = around

    @property
    def id(self) -> str:
        """The `thread_id`."""
        return self.reader.thread_id

    @property
    def first_at(self) -> datetime | None:
        """Time of the oldest checkpoint, UTC; None if the ids hold no time."""
        return self.reader.thread.first_at

    @property
    def last_at(self) -> datetime | None:
        """Time of the newest checkpoint, UTC; None if the ids hold no time."""
        return self.reader.thread.last_at

    @property
    def checkpoint_count(self) -> int:
        """Number of checkpoints in all namespaces."""
        return self.reader.thread.checkpoints

    @property
    def namespaces(self) -> list[str]:
        """The namespaces of the thread; the root graph's is `''`."""
        return list(self.reader.namespaces)

    @property
    def head(self) -> CheckpointHandle:
        """The checkpoint from which LangGraph resumes. Raises `NotFound` if there is none."""
        return self.at("head")

    @property
    def status(self) -> str:
        """`error`, `interrupted`, `pending`, `done`, `unknown`, or `empty` without a root head."""
        return self.head.status if self.reader.head("") is not None else "empty"

    def __getitem__(self, ref: str) -> CheckpointHandle:
        """Return the checkpoint that a ref names, such as `b955d`, `~1` or `step:3`."""
        return self.at(ref)

    def at(
        self,
        ref: str | None = None,
        *,
        ns: str | None = None,
        as_of: str | datetime | None = None,
    ) -> CheckpointHandle:
        """Return a checkpoint by its ref, or the head as it was at a time.

        `ns` names a namespace, by default the root. `docs/refs.md` lists the refs.
        Raises `NotFound`, `Ambiguous` or `UsageError`.
        """
        time = as_of.isoformat() if isinstance(as_of, datetime) else as_of
        named = NamedThread(self.reader, ns, ref, time)
        return CheckpointHandle(self, named.checkpoint(self.around.now, self.around.zone))

    def history(
        self, *, ns: str | None = None, all_ns: bool = False, limit: int | None = None
    ) -> Iterator[CheckpointHandle]:
        """Yield the checkpoints of a namespace, newest first; with `all_ns`, of all namespaces."""
        from ckpt_cli.queries.history import history_entries

        for entry in history_entries(self.reader, ns, all_ns=all_ns, limit=limit):
            key = entry.moment.key
            target = Target(self.reader, key.checkpoint_ns, key.checkpoint_id, chosen=True)
            yield CheckpointHandle(self, target, entry)

    def summary(self) -> Answer[Summary]:
        """Return what `ckpt threads show` prints: status, errors, questions and size."""
        from ckpt_cli.queries.threads import summarize
        from ckpt_cli.render.records import summary_record

        return Answer(summarize(self.reader), summary_record)

    def tree(self, *, ns: str | None = None, all_ns: bool = False, unfold: bool = False) -> str:
        """Return the drawing of `ckpt show --tree`, as text."""
        return "\n".join(one.text for one in self._tree_lines(ns, all_ns=all_ns, unfold=unfold))

    def read_tree(
        self,
        ns: str | None = None,
        *,
        all_ns: bool = False,
        unfold: bool = False,
        keep: CheckpointHandle | None = None,
    ) -> Tree:
        """Return the tree that is drawn; the checkpoint `keep` is never folded."""
        from ckpt_cli.queries.tree import read_tree
        from ckpt_cli.render.values.one_line import summary

        def say(value: Value) -> str:
            return summary(value, _QUESTION_WIDTH)

        kept = None if keep is None else (keep.ns, keep.id)
        return read_tree(self.reader, ns, say, nest=all_ns, unfold=unfold, keep=kept)

    def _tree_lines(
        self, ns: str | None = None, *, all_ns: bool = False, unfold: bool = False
    ) -> Iterator[StyledLine]:
        from ckpt_cli.render.tree.lines import tree_lines

        found, around = self.read_tree(ns, all_ns=all_ns, unfold=unfold), self.around
        yield from tree_lines(
            found.plan,
            found.details,
            found.refs,
            thread_id=self.id,
            zone=around.zone,
            now=around.now,
            status=", ".join(found.conditions),
            width=_WIDTH,
        )

    def _repr_html_(self) -> str:
        """Draw the tree in a notebook."""
        from ckpt_cli.render.html import html_of

        return html_of(self._tree_lines())

    def __repr__(self) -> str:
        return f"<ThreadHandle {self.id}>"
