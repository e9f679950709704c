"""A thread's checkpoints as a list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ckpt_backends.model import Checkpoint
from ckpt_cli.reading import redacted
from ckpt_cli.reading.thread import Moment, ThreadReader


@dataclass(frozen=True, slots=True)
class Entry:
    """One checkpoint of a listing."""

    moment: Moment
    depth: int
    """Branches that it is away from the one that leads to the head; 0 is the head's own."""
    children: Sequence[str]
    plaintext: bool = False
    """Stored unencrypted, in a thread with encrypted checkpoints."""


def history_entries(
    reader: ThreadReader, checkpoint_ns: str | None, *, all_ns: bool, limit: int | None
) -> Iterator[Entry]:
    """Checkpoints newest first within each namespace, read a few at a time."""
    chosen = "" if checkpoint_ns is None else reader.namespace(checkpoint_ns)
    namespaces = reader.namespaces if all_ns else [chosen]
    found = (entry for ns in namespaces for entry in _entries(reader, ns))
    return islice(found, limit)


def _entries(reader: ThreadReader, checkpoint_ns: str) -> Iterator[Entry]:
    index = reader.index(checkpoint_ns)
    depths = branch_depths(index, reader.head(checkpoint_ns))
    children: dict[str, list[str]] = {}
    for one in reversed(index):
        if one.parent_checkpoint_id is not None:
            children.setdefault(one.parent_checkpoint_id, []).append(one.key.checkpoint_id)
    for moment in reader.moments(checkpoint_ns):
        checkpoint_id = moment.key.checkpoint_id
        plaintext = reader.is_plaintext(moment)
        shown = redacted.moment(moment) if redacted.is_redacted(reader.store) else moment
        yield Entry(shown, depths[checkpoint_id], children.get(checkpoint_id, []), plaintext)


def branch_depths(index: Sequence[Checkpoint], head: str | None) -> dict[str, int]:
    """How many branches each checkpoint is away from the one that leads to the head.

    Of the children of a fork, the one that the newest tip comes from goes on with its branch.
    """
    parents = {one.key.checkpoint_id: one.parent_checkpoint_id for one in index}
    depths: dict[str, int] = {}
    for start in [*([] if head is None else [head]), *parents]:
        path: dict[str, None] = {}
        here: str | None = start
        while here in parents and here not in depths and here not in path:
            path[here] = None
            here = parents[here]
        depth = 0 if start == head else depths.get(here or "", -1) + 1
        depths.update(dict.fromkeys(path, depth))
    return depths
