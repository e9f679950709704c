"""Contradictions in the keys of a namespace."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.model import Checkpoint, CheckpointKey, make_id, ticks_at
from ckpt_cli.core.doctor.checks import (
    WritesOfOne,
    ahead_finding,
    is_orphaned,
    lineage_findings,
    orphan_finding,
)
from ckpt_cli.core.doctor.findings import Finding, Severity

NOW = datetime(2026, 4, 7, 10, tzinfo=UTC)


def id_at(seconds: float, step: int = 0) -> str:
    return make_id(ticks_at(NOW + timedelta(seconds=seconds)), step, 7)


def checkpoint(own: str, parent: str | None, at: datetime | None = None) -> Checkpoint:
    return Checkpoint(CheckpointKey("t", "", own), parent, at=at)


def listed(*checkpoints: Checkpoint) -> list[Checkpoint]:
    """In the order of a store that sorts by id."""
    return sorted(checkpoints, key=lambda one: one.key.checkpoint_id, reverse=True)


def told(found: Iterator[Finding]) -> list[tuple[str, str | None]]:
    return [(one.code, one.checkpoint_id) for one in found]


@st.composite
def histories(draw: st.DrawFn) -> list[Checkpoint]:
    """Checkpoints with branches, as savers write them: each is newer than its parent."""
    number = draw(st.integers(1, 12))
    ids = [id_at(place) for place in range(number)]
    parents = [draw(st.integers(0, place - 1)) if place else None for place in range(number)]
    return listed(
        *(
            checkpoint(own, None if parent is None else ids[parent])
            for own, parent in zip(ids, parents, strict=True)
        )
    )


@given(histories())
def test_a_history_of_a_saver_has_no_fault(history: list[Checkpoint]) -> None:
    assert told(lineage_findings(history, {})) == []


@given(histories(), st.data())
def test_children_of_the_removed_are_found(history: list[Checkpoint], data: st.DataObject) -> None:
    removed = data.draw(st.sampled_from(history)).key.checkpoint_id
    left = [one for one in history if one.key.checkpoint_id != removed]
    children = [one.key.checkpoint_id for one in left if one.parent_checkpoint_id == removed]
    found = list(lineage_findings(left, {}))
    assert told(iter(found)) == [("parent-missing", one) for one in children]
    assert all(one.severity is Severity.INFO for one in found)
    with_writes = list(lineage_findings(left, {removed: WritesOfOne(2, {"a"})}))
    assert [one.checkpoint_id for one in with_writes] == children
    assert all(one.severity is Severity.WARNING for one in with_writes)


@given(histories(), st.data())
def test_an_order_by_time_is_not_questioned(history: list[Checkpoint], data: st.DataObject) -> None:
    """In layouts that sort by the time of storing, ids need not grow."""
    renamed = data.draw(st.permutations([one.key.checkpoint_id for one in history]))
    new = dict(zip((one.key.checkpoint_id for one in history), renamed, strict=True))
    moved = [
        checkpoint(
            new[one.key.checkpoint_id],
            one.parent_checkpoint_id and new[one.parent_checkpoint_id],
            at=NOW,
        )
        for one in history
    ]
    assert told(lineage_findings(moved, {})) == []


def test_a_child_with_a_smaller_id_hides_behind_its_parent() -> None:
    first, second, late = id_at(0), id_at(1), id_at(-60)
    history = listed(checkpoint(first, None), checkpoint(second, first), checkpoint(late, second))
    assert told(lineage_findings(history, {})) == [
        ("head-not-newest", second),
        ("id-not-increasing", late),
    ]
    inside = listed(checkpoint(first, None), checkpoint(late, first), checkpoint(second, first))
    assert told(lineage_findings(inside, {})) == [("id-not-increasing", late)]


def test_javascript_may_give_a_child_the_time_of_its_parent() -> None:
    parent, child = id_at(0, step=-1), id_at(0, step=0)
    assert child < parent
    newer = checkpoint(id_at(1), child)
    assert (
        told(
            lineage_findings(listed(checkpoint(parent, None), checkpoint(child, parent), newer), {})
        )
        == []
    )


def test_parents_that_only_old_subgraphs_have_are_no_fault() -> None:
    own, elsewhere = id_at(0), id_at(-1)
    assert told(lineage_findings([checkpoint(own, own)], {})) == []
    assert told(lineage_findings([checkpoint(own, elsewhere)], {}, {own, elsewhere})) == []


def test_a_head_may_be_ahead_by_less_than_the_tolerance() -> None:
    minute = timedelta(minutes=1)
    assert ahead_finding(checkpoint(id_at(60), None), NOW, minute) is None
    found = ahead_finding(checkpoint(id_at(7200), None), NOW, minute)
    assert found is not None
    assert found.detail == "it is dated 2 hours after now"
    by_store = checkpoint(id_at(7200), None, at=NOW)
    assert ahead_finding(by_store, NOW, minute) is None
    assert ahead_finding(by_store._replace(at=NOW + 9 * minute), NOW, minute) is not None


def test_writes_older_than_the_head_are_orphaned_at_once() -> None:
    writes, before = WritesOfOne(1, {"task"}), NOW - timedelta(minutes=1)
    head = checkpoint(id_at(-10), None)
    assert is_orphaned(id_at(-11), writes, head, before)
    assert not is_orphaned(id_at(-9), writes, head, before)
    assert not is_orphaned(id_at(-10, step=3), writes, head, before)
    assert is_orphaned(id_at(-9), writes, head, NOW)
    assert not is_orphaned(id_at(-9), writes, None, before)
    assert is_orphaned(id_at(-61), writes, None, before)
    assert not is_orphaned("no-time", writes, head, NOW)


def test_the_time_of_a_write_counts_in_layouts_that_store_it() -> None:
    before = NOW - timedelta(minutes=1)
    head = checkpoint("b", None, at=NOW - timedelta(seconds=10))
    writes = WritesOfOne()
    writes.add("task", NOW - timedelta(seconds=20))
    assert is_orphaned("a", writes, head, before)
    writes.add("task", NOW - timedelta(seconds=5))
    assert not is_orphaned("a", writes, head, before)
    assert is_orphaned("a", writes, head, NOW)


def test_orphaned_writes_name_their_task_if_there_is_only_one() -> None:
    writes = WritesOfOne()
    writes.add("one", None)
    writes.add("one", None)
    it = orphan_finding(CheckpointKey("t", "", "c"), writes)
    assert (it.task_id, it.detail) == ("one", "2 writes name this checkpoint, which is not stored")
    writes.add("other", None)
    assert orphan_finding(CheckpointKey("t", "", "c"), writes).task_id is None
