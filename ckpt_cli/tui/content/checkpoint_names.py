"""Names of checkpoints for titles and columns: step, nodes and short ref."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ckpt_backends.checkpoint_ids import step_of
from ckpt_cli.core.refs import short_refs
from ckpt_cli.core.tasks.tasks import node_path, path_text
from ckpt_cli.core.tree import Key, StepDetails
from ckpt_cli.queries.history import made_by
from ckpt_cli.queries.tree import Tree
from ckpt_cli.reading.thread import Moment, ThreadReader
from ckpt_cli.render.table import step_number
from ckpt_cli.render.text import safe_text


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
    outer = moment.key.thread_id if with_thread else ""
    return _name(moment.number, nodes, refs[checkpoint_id], ns, outer)


def _name(
    step: int | None, nodes: Iterable[str], ref: str, checkpoint_ns: str, thread_id: str = ""
) -> str:
    """Return a name after the calls that lead to it: `research > step 7 · book · 6a3c`."""
    parts = f"step {step_number(step)}", ", ".join(dict.fromkeys(nodes)), ref
    outer = (thread_id,) if thread_id else ()
    return safe_text(
        path_text((*outer, *node_path(checkpoint_ns, [" · ".join(filter(None, parts))])))
    )
