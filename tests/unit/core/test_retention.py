"""Which checkpoints stay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.changes import GONE, MOVED, Removal
from ckpt_backends.model import Status
from ckpt_cli.core.retention import RetentionCandidate, RetentionRules, choose_kept, why_protected

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def item(name: str, parent: str | None = None, ns: str = "", **more: object) -> RetentionCandidate:
    at = NOW - timedelta(days=100 - int(name))
    return RetentionCandidate(ns, name, parent, at, **more)  # type: ignore[arg-type]


def line(length: int) -> list[RetentionCandidate]:
    """A thread without branches, newest first: ids '01', '02', ..."""
    ids = [f"{number:02}" for number in range(1, length + 1)]
    return [item(one, before) for one, before in zip(ids, [None, *ids], strict=False)][::-1]


def names(chosen: object) -> set[str]:
    return {checkpoint_id for _, checkpoint_id in chosen}  # type: ignore[attr-defined]


def test_the_newest_stay_and_say_why() -> None:
    chosen = choose_kept(line(5), RetentionRules(last=2), NOW)
    assert chosen == {("", "05"): ["newest"], ("", "04"): ["newest"]}


def test_the_head_stays_however_old_it_is() -> None:
    assert names(choose_kept(line(5), RetentionRules(within=timedelta(days=1)), NOW)) == {"05"}


def test_what_is_young_stays() -> None:
    assert names(choose_kept(line(5), RetentionRules(within=timedelta(days=97)), NOW)) == {
        "05",
        "04",
        "03",
    }


def test_what_has_no_age_stays() -> None:
    items = line(3)
    items[2] = RetentionCandidate("", "01", None, None)
    assert names(choose_kept(items, RetentionRules(last=1), NOW)) == {"03", "01"}


def test_ends_of_branches_stay() -> None:
    items = [item("04", "01"), item("03", "02"), item("02", "01"), item("01")]
    assert names(choose_kept(items, RetentionRules(tips=True), NOW)) == {"04", "03"}


def test_an_unfinished_step_stays() -> None:
    items = [item("03", "01"), item("02", "01", unfinished=True), item("01")]
    assert names(choose_kept(items, RetentionRules(last=1), NOW)) == {"03", "02"}


def test_the_parent_that_holds_the_sends_stays() -> None:
    items = [item("03", "02", needs_sends=True), item("02", "01"), item("01")]
    assert names(choose_kept(items, RetentionRules(last=1), NOW)) == {"03", "02"}


def test_a_delta_channel_keeps_its_past_down_to_the_stored_value() -> None:
    missing, stored = frozenset({"messages"}), frozenset({"messages"})
    items = [
        item("05", "04", missing=missing),
        item("04", "03", missing=missing),
        item("03", "02", stored=stored),
        item("02", "01", stored=stored),
        item("01"),
    ]
    chosen = choose_kept(items, RetentionRules(last=1), NOW)
    assert names(chosen) == {"05", "04", "03"}
    assert chosen["", "03"] == ["needed for DeltaChannel messages"]


def test_subgraphs_stay_with_their_caller() -> None:
    items = [
        *line(3),
        item("12", "11", "a:1", root="03"),
        item("11", None, "a:1", root="03"),
        item("10", None, "b:2", root="02"),
    ]
    assert names(choose_kept(items, RetentionRules(last=1), NOW)) == {"03", "12", "11"}


def test_a_subgraph_whose_caller_is_not_stored_stays() -> None:
    items = [*line(3), item("10", None, "a:1", root="99"), item("11", None, "b:2")]
    assert names(choose_kept(items, RetentionRules(last=1), NOW)) == {"03", "10", "11"}


def test_a_subgraph_with_a_memory_keeps_what_it_knew() -> None:
    items = [
        item("20", "10"),
        item("10"),
        item("15", "08", "memory", root="10"),
        item("08", "05", "memory", root="07"),
        item("05", None, "memory", root="07"),
        item("07", None),
    ]
    items = [items[0], items[1], items[5], *items[2:5]]
    assert names(choose_kept(items, RetentionRules(last=1), NOW)) == {"20", "15"}
    assert names(choose_kept(items, RetentionRules(last=2), NOW)) == {"20", "10", "15", "08"}


@st.composite
def threads(draw: st.DrawFn) -> list[RetentionCandidate]:
    """Threads of any shape, also broken ones: parents that are not there, or come in a circle."""
    size = draw(st.integers(1, 12))
    ids = [f"{number:02}" for number in range(1, size + 1)]
    items = []
    for name in reversed(ids):
        ns = draw(st.sampled_from(["", "", "a:1", "memory"]))
        items.append(
            item(
                name,
                draw(st.sampled_from([None, "99", *ids])),
                ns,
                root=draw(st.sampled_from([None, "99", *ids])) if ns else None,
                unfinished=draw(st.booleans()),
                needs_sends=draw(st.booleans()),
                missing=draw(st.frozensets(st.sampled_from("xy"))),
                stored=draw(st.frozensets(st.sampled_from("xy"))),
            )
        )
    return sorted(items, key=lambda one: one.checkpoint_ns)


KEEPS = st.builds(
    RetentionRules,
    st.none() | st.integers(1, 4),
    st.none() | st.integers(80, 100).map(lambda days: timedelta(days=days)),
    st.booleans(),
)


@given(threads(), KEEPS)
def test_each_that_stays_has_what_it_is_read_with(
    items: list[RetentionCandidate], keep: RetentionRules
) -> None:
    chosen = choose_kept(items, keep, NOW)
    by_key = {(one.checkpoint_ns, one.checkpoint_id): one for one in items}
    for key in chosen:
        one = by_key[key]
        parent = (one.checkpoint_ns, one.parent or "")
        if one.needs_sends and parent in by_key:
            assert parent in chosen
        missing, here, passed = set(one.missing), one, {key}
        while missing:
            above = (here.checkpoint_ns, here.parent or "")
            if above not in by_key or above in passed:
                break
            assert above in chosen
            here = by_key[above]
            passed.add(above)
            missing -= here.stored
    root = [one for one in items if not one.checkpoint_ns]
    if root:
        assert ("", root[0].checkpoint_id) in chosen


@given(threads(), KEEPS)
def test_a_policy_that_keeps_more_removes_less(
    items: list[RetentionCandidate], keep: RetentionRules
) -> None:
    more = RetentionRules((keep.last or 0) + 1, keep.within, keep.tips)
    assert choose_kept(items, keep, NOW).keys() <= choose_kept(items, more, NOW).keys()


def test_a_thread_is_kept_for_each_condition_that_is_not_included() -> None:
    failed, asked = Status.ERROR, Status.INTERRUPTED
    assert why_protected([failed, asked], []) == (
        "its last step failed and a question waits for an answer"
        " (to remove: --include-error --include-interrupted)"
    )
    assert why_protected([failed, asked], [asked]).startswith(
        "its last step failed (to remove: --include-error)"
    )
    assert why_protected([failed, asked], [failed]).startswith("a question waits for an answer (")
    assert why_protected([failed, asked], [asked, failed]) == why_protected([Status.DONE], []) == ""
    assert "--include-pending" in why_protected([Status.UNKNOWN], [failed, asked])


def test_a_thread_that_is_not_as_it_was_planned_is_skipped() -> None:
    planned = Removal("t", NOW, 2, 1)
    assert planned.reason_to_skip(NOW, 2, 1) == ""
    for state in ((NOW + timedelta(seconds=1), 2, 1), (NOW, 3, 1), (NOW, 2, 0), (None, 2, 1)):
        assert planned.reason_to_skip(*state) == MOVED
    assert planned.reason_to_skip(None, 0, 0) == GONE
