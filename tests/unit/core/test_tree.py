"""The shape of a thread: what is drawn under what, what is folded, and that nothing is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from ckpt_cli.core.lineage import innermost, is_subgraph_call
from ckpt_cli.core.tree import (
    CallRow,
    FoldRow,
    Key,
    SectionRow,
    Skeleton,
    StepRow,
    TreeLayout,
    plan_tree,
    undecided,
)


def chain(ids: str, ns: str = "", first_parent: str | None = None) -> list[Skeleton]:
    """One checkpoint per letter, each the child of the one before."""
    parents = [first_parent, *ids]
    return [
        Skeleton(ns, own, parent, step, source="loop", ran=("work",), tasks=(f"task-{own}",))
        for step, (own, parent) in enumerate(zip(ids, parents, strict=False))
    ]


def sketch(plan: TreeLayout) -> list[str]:
    """Rows in short: lanes, then the ids."""
    lines = []
    for row in plan.rows:
        if isinstance(row, StepRow):
            sign = "-" if row.branch else ""
            tip = " head" if row.head else " tip" if row.last else ""
            lines.append(f"{row.lanes}{sign}{row.id}{tip}")
        elif isinstance(row, FoldRow):
            lines.append(f"{row.lanes}:{''.join(row.ids)}")
        elif isinstance(row, CallRow):
            lines.append(f"{row.lanes}({' '.join(row.namespaces)} {len(row.keys)})")
        else:
            lines.append(f"[{row.ns}]")
    return lines


def covered(plan: TreeLayout) -> Counter[Key]:
    """How often each checkpoint is in a row; those of nested calls have rows of their own."""
    found: Counter[Key] = Counter()
    for row in plan.rows:
        if isinstance(row, StepRow):
            found[row.key] += 1
        elif isinstance(row, FoldRow):
            found.update((row.ns, checkpoint_id) for checkpoint_id in row.ids)
        elif isinstance(row, CallRow) and not row.nested:
            found.update(row.keys)
    return found


def test_plain_steps_between_the_first_and_the_last_are_folded() -> None:
    plan = plan_tree(chain("abcdef"))
    assert sketch(plan) == ["a", ":bcde", "f head"]
    assert plan.shown == (("", "a"), ("", "f"))
    assert plan.folded == 4
    fold = plan.rows[1]
    assert isinstance(fold, FoldRow)
    assert fold.ran == (("work", 4),)
    assert fold.parent == "a"


def test_two_plain_steps_are_not_worth_a_fold() -> None:
    assert sketch(plan_tree(chain("abcd"))) == ["a", "b", "c", "d head"]


def test_unfold_shows_every_step() -> None:
    assert sketch(plan_tree(chain("abcdef"), unfold=True)) == [*"abcde", "f head"]


def test_inputs_questions_and_errors_are_never_folded() -> None:
    items = chain("abcdefghijklm")
    items[4] = Skeleton("", "e", "d", 4, source="input", tasks=("t",))
    items[8] = Skeleton("", "i", "h", 8, source="loop", ran=("x",), marked=True)
    assert sketch(plan_tree(items)) == ["a", ":bcd", "e", ":fgh", "i", ":jkl", "m head"]


def test_a_fold_says_when_not_all_its_nodes_are_known() -> None:
    items = chain("abcdef")
    items[2] = Skeleton("", "c", "b", 2)
    fold = plan_tree(items).rows[1]
    assert isinstance(fold, FoldRow)
    assert fold.ran == (("work", 3),)
    assert not fold.all_known


def test_the_branch_to_the_head_is_the_trunk() -> None:
    items = [*chain("abc"), *chain("xy", first_parent="a")]
    plan = plan_tree(items)
    assert sketch(plan) == ["a", "|-b", "|c tip", "x", "y head"]
    assert plan.branches == 2
    assert sketch(plan_tree(items, heads={"": "c"})) == ["a", "|-x", "|y tip", "b", "c head"]


def test_branches_of_branches_stand_further_in() -> None:
    items = [*chain("abcd"), *chain("pq", first_parent="b"), *chain("st", first_parent="p")]
    items += chain("z", first_parent="a")
    assert sketch(plan_tree(items)) == [
        *("a", "|-b", "||-c", "||d tip", "|p", "||-q tip", "|s", "|t tip", "z head")
    ]


def test_a_fork_written_as_a_sibling_is_drawn_under_its_target() -> None:
    fork = Skeleton("", "x", "a", 2, source="fork", forked_from="b")
    assert sketch(plan_tree([*chain("abc"), fork])) == ["a", "b", "|-c tip", "x head"]
    first = Skeleton("", "x", None, 2, source="fork", forked_from="a")
    assert sketch(plan_tree([*chain("abc"), first])) == ["a", "|-b", "|c tip", "x head"]


def test_forked_from_that_fits_no_sibling_changes_nothing() -> None:
    for target in ("gone", "c", "x", "z"):
        fork = Skeleton("", "x", "a", 2, source="fork", forked_from=target)
        assert sketch(plan_tree([*chain("abc"), fork])) == ["a", "|-b", "|c tip", "x head"]


def test_a_missing_parent_begins_a_tree() -> None:
    plan = plan_tree([*chain("ab"), *chain("xy", first_parent="pruned")])
    assert sketch(plan) == ["a", "b tip", "x", "y head"]
    first = plan.rows[2]
    assert isinstance(first, StepRow)
    assert first.trouble == "parent gone"
    assert first.parent == "pruned"


def test_a_loop_of_parents_is_cut_below_its_greatest_id() -> None:
    items = chain("abc", first_parent="c")
    plan = plan_tree(items)
    assert sketch(plan) == ["a", "b", "c head"]
    first = plan.rows[0]
    assert isinstance(first, StepRow)
    assert first.trouble == "loop"


def test_a_checkpoint_that_is_its_own_parent_is_a_beginning() -> None:
    plan = plan_tree([*chain("a", first_parent="a"), *chain("b", first_parent="a")])
    assert sketch(plan) == ["a", "b head"]


def test_a_call_hangs_under_the_checkpoint_that_holds_its_task() -> None:
    items = [*chain("abcd"), *chain("xyz", ns="research:task-b")]
    assert sketch(plan_tree(items)) == ["a", "b", "|(research:task-b 3)", "c", "d head"]
    assert sketch(plan_tree(items, nest=True)) == [
        *("a", "b", "|(research:task-b 3)", "| x", "| y", "| z head", "c", "d head")
    ]


def test_a_second_call_in_one_task_hangs_beside_the_first() -> None:
    items = [*chain("ab"), *chain("y", ns="n:task-a"), *chain("z", ns="n:task-a|1")]
    assert sketch(plan_tree(items)) == ["a", "|(n:task-a 1)", "|(n:task-a|1 1)", "b head"]


def test_a_call_in_a_call_is_counted_in_the_outer_one() -> None:
    inner = "mid:task-a|in:task-x"
    items = [*chain("ab"), *chain("xy", ns="mid:task-a"), *chain("z", ns=inner)]
    assert sketch(plan_tree(items)) == ["a", "|(mid:task-a 3)", "b head"]
    assert sketch(plan_tree(items, nest=True)) == [
        *("a", "|(mid:task-a 3)", "| x", f"| |({inner} 1)", "| | z head", "| y head", "b head")
    ]


def test_a_call_is_placed_by_its_metadata_where_no_task_is_known() -> None:
    call = Skeleton("research:unknown", "x", None, parents={"": "a"})
    assert sketch(plan_tree([*chain("ab"), call])) == ["a", "|(research:unknown 1)", "b head"]


def test_a_call_without_a_caller_gets_its_own_section() -> None:
    items = [*chain("ab"), *chain("x", ns="research:lost"), *chain("y", ns="memory")]
    plan = plan_tree(items)
    assert sketch(plan) == ["a", "b head", "[memory]", "y head", "[research:lost]", "x head"]
    assert [row.call for row in plan.rows if isinstance(row, SectionRow)] == [False, True]
    assert plan.calls == 1


def test_calls_of_a_stateful_namespace_hang_in_its_section() -> None:
    items = [*chain("ab"), *chain("xy", ns="memory"), *chain("z", ns="memory|in:task-x")]
    plan = plan_tree(items)
    assert sketch(plan)[2:] == ["[memory]", "x", "|(memory|in:task-x 1)", "y head"]


def test_one_namespace_alone_is_drawn_as_a_root_is() -> None:
    plan = plan_tree([*chain("abc", ns="research:t"), *chain("x", ns="research:t|in:task-b")])
    assert sketch(plan) == ["a", "b", "|(research:t|in:task-b 1)", "c head"]
    assert (plan.ns, plan.branches, plan.calls) == ("research:t", 1, 1)


def test_many_quiet_calls_of_one_node_share_a_row() -> None:
    many = tuple(f"t{n}" for n in range(5))
    root = [Skeleton("", "a", None, tasks=many), *chain("b", first_parent="a")]
    calls = [Skeleton(f"n:t{n}", f"x{n}", None) for n in range(5)]
    assert sketch(plan_tree([*root, *calls]))[1] == "|(n:t0 n:t1 n:t2 n:t3 n:t4 5)"
    calls[3] = Skeleton("n:t3", "x3", None, marked=True)
    assert len(plan_tree([*root, *calls]).rows) == 7


def test_the_kind_of_a_namespace_is_in_its_last_segment() -> None:
    assert innermost("a:1|b:c:2|3") == ("a:1", "b:c", "2", "3")
    assert [is_subgraph_call(ns) for ns in ("", "a", "a:1", "a:1|2", "a:1|b", "a|b:1")] == [
        *(False, False, True, True, False, True)
    ]
    assert [innermost(ns).node for ns in ("a", "a:1", "a:1|2", "a:1|b:c:3")] == [
        "a",
        "a",
        "a",
        "b:c",
    ]


def test_undecided_are_the_checkpoints_where_a_run_may_have_begun() -> None:
    items = [Skeleton("", own, up, tasks=("t",)) for own, up in zip("bcdef", "abcde", strict=True)]
    items += [Skeleton("", "a", None, marked=True), Skeleton("", "x", "c", tasks=("t",))]
    items += [Skeleton("", "g", "f", 7), Skeleton("", "h", "g", 8), Skeleton("", "i", "h", 10)]
    found = {own for _, own in undecided(items)}
    assert found == {"a", "b", "d", "x", "h", "i"}
    assert undecided(chain("abc")) == []


def test_no_checkpoints_make_an_empty_plan() -> None:
    assert plan_tree([]) == TreeLayout((), (), 0, 0, 0, 0)


NAMESPACES = ["", "memory", "a:1", "a:1|1", "a:1|b:2", "memory|c:3", "d:4", "d:5", "d:6", "d:7"]
IDS = st.integers(0, 30).map(lambda n: f"id-{n:02}")
FORESTS = st.lists(
    st.builds(
        Skeleton,
        checkpoint_ns=st.sampled_from(NAMESPACES),
        checkpoint_id=IDS,
        parent_checkpoint_id=st.none() | IDS,
        source=st.sampled_from([None, "loop", "loop", "loop", "input", "fork"]),
        tasks=st.lists(st.sampled_from("1234567"), max_size=2).map(tuple),
        marked=st.booleans(),
        forked_from=st.none() | IDS,
        parents=st.dictionaries(st.sampled_from(NAMESPACES), IDS, max_size=2),
    ),
    max_size=60,
    unique_by=lambda item: item.key,
)


def once(items: Iterable[Skeleton]) -> Counter[Key]:
    return Counter(item.key for item in items)


@given(FORESTS)
def test_unfolded_rows_show_every_checkpoint_exactly_once(items: list[Skeleton]) -> None:
    plan = plan_tree(items, unfold=True)
    assert covered(plan) == once(items)
    assert Counter(plan.shown) == once(items)
    assert plan.checkpoints == len(items)


@given(FORESTS, st.booleans())
def test_folded_rows_cover_every_checkpoint_exactly_once(items: list[Skeleton], nest: bool) -> None:
    plan = plan_tree(items, nest=nest)
    assert covered(plan) == once(items)
    assert len(set(plan.shown)) == len(plan.shown)


@given(FORESTS)
def test_a_fold_holds_only_plain_steps(items: list[Skeleton]) -> None:
    by_key = {item.key: item for item in items}
    children = Counter((item.checkpoint_ns, item.parent_checkpoint_id) for item in items)
    for row in plan_tree(items, nest=True).rows:
        if isinstance(row, FoldRow):
            assert len(row.ids) >= 3
            for checkpoint_id in row.ids:
                item = by_key[row.ns, checkpoint_id]
                assert item.source in {None, "loop"}
                assert not item.marked
                assert children[item.key] <= 1 or any(x.forked_from for x in items)


def test_a_long_thread_is_planned() -> None:
    items = [
        Skeleton("", f"{n:06}", f"{n - 1:06}" if n else None, n, tasks=(str(n),))
        for n in range(10_000)
    ]
    plan = plan_tree(items)
    assert [type(row) for row in plan.rows] == [StepRow, FoldRow, StepRow]


def test_deep_nesting_of_branches_does_not_grow_rows_without_end() -> None:
    count = 2_000
    items = [Skeleton("", f"{n:06}", f"{n - 1:06}" if n else None) for n in range(count)]
    items += [Skeleton("", f"{count + n:06}", f"{count - 1 - n:06}") for n in range(count)]
    plan = plan_tree(items)
    steps = [row for row in plan.rows if isinstance(row, StepRow)]
    assert max(row.depth for row in steps) == count - 1
    assert max(len(row.lanes) for row in steps) <= 12


def test_a_call_nested_beyond_reason_is_a_tree_of_its_own() -> None:
    ns = "|" * 100_000 + "a:b"
    assert sketch(plan_tree([*chain("a"), *chain("b", ns)])) == ["a head", f"[{ns}]", "b head"]
