"""Trees that are made by hand, to be drawn."""

from collections.abc import Mapping, Sequence
from typing import Any

from ckpt_backends.model import Status
from ckpt_cli.core.tree import Key, StepDetails, TreeLayout
from ckpt_cli.queries.tree import Tree


def tree_of(
    thread_id: str,
    plan: TreeLayout,
    details: Mapping[Key, StepDetails],
    refs: Mapping[str, str],
    conditions: Sequence[Status] = (),
) -> Tree:
    """Return a tree without what only reading more of it needs."""
    no_keys: Any = None
    return Tree(
        thread_id, plan, details, refs, conditions, no_keys, unread=frozenset(), forked=frozenset()
    )
