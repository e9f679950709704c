"""Export a thread as a whole, checkpoint by checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_cli.queries.show import CheckpointView, view
from ckpt_cli.threads.target import Target
from ckpt_cli.threads.thread import ThreadReader


def views(reader: ThreadReader) -> Iterator[CheckpointView]:
    """Yield all checkpoints of a thread with state and writes: by namespace, oldest first."""
    for ns in reader.namespaces:
        for one in reversed(reader.index(ns)):
            yield view(Target(reader, ns, one.key.checkpoint_id, chosen=False), None, writes=True)
