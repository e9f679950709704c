"""Read the parents of all checkpoints of a thread, to step from one to the next."""

from __future__ import annotations

from ckpt_cli.core.tree.parentage import Parentage
from ckpt_cli.threads.thread import ThreadReader


def read_parentage(reader: ThreadReader, checkpoint_ns: str | None) -> Parentage:
    """Return the parents of the checkpoints of a thread, or of one namespace; reads no body."""
    namespaces = reader.namespaces if checkpoint_ns is None else [reader.namespace(checkpoint_ns)]
    return Parentage(
        {
            (ns, one.key.checkpoint_id): one.parent_checkpoint_id
            for ns in namespaces
            for one in reader.index(ns)
        }
    )
