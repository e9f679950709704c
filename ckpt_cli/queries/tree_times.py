"""Tell how long the steps of a tree took, and what happened in them, from keys alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ckpt_backends.checkpoint_ids import time_of
from ckpt_cli.core.timeline.scrubber import TimedPoint, point_sign
from ckpt_cli.core.timeline.steps import TimedCheckpoint, TimedStep, timed_steps
from ckpt_cli.core.tree.rows import Key, Skeleton, StepRow, TreeLayout
from ckpt_cli.queries.tree_keys import StoredKeys, TreeKeys


def tree_steps(
    keys: TreeKeys, skeletons: Iterable[Skeleton], *, is_values_only: bool
) -> dict[Key, TimedStep]:
    """Return the step that made each checkpoint."""
    none = StoredKeys()
    drawn = {one.key: one for one in skeletons}
    by_ns: dict[str, list[TimedCheckpoint]] = {}
    for (ns, checkpoint_id), one in reversed(list(keys.index.items())):
        own = none if is_values_only else keys.stored.get((ns, checkpoint_id), none)
        facts = drawn.get((ns, checkpoint_id))
        by_ns.setdefault(ns, []).append(
            TimedCheckpoint(
                checkpoint_ns=ns,
                checkpoint_id=checkpoint_id,
                parent_checkpoint_id=one.parent_checkpoint_id,
                at=one.at or time_of(checkpoint_id),
                source=None if facts is None else facts.source,
                asking=own.asking,
                failed=_failed(own, is_tip=(ns, checkpoint_id) in keys.tips),
                by_hand=facts is not None
                and (facts.source == "update" or facts.forked_from is not None),
            )
        )
    return {
        (ns, checkpoint_id): step
        for ns, checkpoints in by_ns.items()
        for checkpoint_id, step in timed_steps(checkpoints).items()
    }


def _failed(own: StoredKeys, *, is_tip: bool) -> dict[str, str | None]:
    """Return the tasks that failed and that, if a checkpoint followed, no error handler took."""
    return dict.fromkeys(own.failed if is_tip else own.failed - own.handled)


def timed_points(
    plan: TreeLayout,
    keys: TreeKeys,
    skeletons: Iterable[Skeleton],
    steps: Mapping[Key, TimedStep],
) -> tuple[TimedPoint, ...]:
    """Return the checkpoints of the first tree with what happened at each, oldest first."""
    none = StoredKeys()
    branches = (row for row in plan.rows if isinstance(row, StepRow) and row.branch)
    forks = {(row.ns, row.parent) for row in branches}
    found = []
    for one in skeletons:
        if one.checkpoint_ns != plan.ns:
            continue
        key, own = one.key, keys.stored.get(one.key, none)
        sign = point_sign(
            source=one.source,
            is_failed=bool(_failed(own, is_tip=key in keys.tips)),
            is_asked=bool(own.asking),
            is_tip=key in keys.tips,
            is_forked=key in forks,
        )
        found.append((one.order, TimedPoint(key, steps[key].ended_at, steps[key].kind, sign)))
    return tuple(point for _, point in sorted(found, key=lambda pair: pair[0]))
