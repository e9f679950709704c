"""Which checkpoint was made from which, and which subgraph was called from which."""

from collections.abc import Iterable
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from ckpt_cli.core.lineage import (
    DEEPEST,
    NamespacePart,
    Parentage,
    depth_of,
    graph_of,
    innermost,
    is_in_call,
    is_stateful,
    is_subgraph_call,
    levels,
    namespace_in,
    namespace_kind,
)

FORKED = Parentage({"f": "c", "e": "b", "d": "c", "c": "b", "b": "a", "a": None})
_IDS = "abcdefgh"
ANY = st.dictionaries(
    st.sampled_from(_IDS), st.none() | st.sampled_from(_IDS + "xyz"), max_size=len(_IDS)
)
"""Parents that may be missing, form loops, or be the checkpoint itself."""
NODES = st.text("abc", min_size=1, max_size=3)
TASKS = st.none() | st.text("0123456789", min_size=1, max_size=3)


def _text(ids: Iterable[str]) -> str:
    return "".join(ids)


def test_ancestors_and_children_are_followed() -> None:
    assert (_text(FORKED.ancestors("f")), _text(FORKED.line("f"))) == ("cba", "fcba")
    assert _text(FORKED.ancestors("a")) == ""
    assert [*FORKED.line("missing")] == []
    assert (_text(FORKED.forward("a", None)), _text(FORKED.forward("a", "d"))) == ("bcf", "bcd")
    assert (_text(FORKED.forward("b", "e")), _text(FORKED.forward("a", "b"))) == ("e", "bcf")
    assert (_text(FORKED.forward("c", "e")), _text(FORKED.forward("d", None))) == ("f", "")
    assert (_text(FORKED.siblings("d")), _text(FORKED.siblings("c"))) == ("df", "ce")
    pruned = Parentage({"z": "gone", "y": "gone", "x": "other"})
    assert _text(pruned.siblings("z")) == "yz"
    assert pruned.parent("z") is None
    assert pruned.named_parent("z") == "gone"
    assert pruned.misses_parent("z")
    assert not FORKED.misses_parent("a")
    own = Parentage({"a": "a"})
    assert ([*own.line("a")], own.depths, [*own.loops()]) == (["a"], {"a": 0}, [["a"]])


def test_the_branch_of_the_head_is_the_trunk_and_forks_beside_it_are_counted() -> None:
    assert (FORKED.tips, FORKED.forks) == (["f", "e", "d"], ["b", "c"])
    assert FORKED.depths == {"f": 0, "c": 0, "b": 0, "a": 0, "e": 1, "d": 1}
    older = Parentage({"e": "b", "f": "c", "d": "c", "c": "b", "b": "a", "a": None})
    assert older.trunk == {"a": "b", "b": "e", "c": "f"}
    assert Parentage({"b": "a", "d": "a", "c": "b", "a": None}).trunk["a"] == "b"
    assert older.depths == {"e": 0, "b": 0, "a": 0, "f": 1, "c": 1, "d": 2}


@given(ANY)
def test_any_parents_can_be_walked(parents: dict[str, str | None]) -> None:
    known = Parentage(parents)
    for one in known:
        line = [*known.line(one)]
        assert line[0] == one
        assert len(line) == len({*line})
        assert {*line} <= {*known}
        forward = [*islice(known.forward(one, None), 99)]
        assert len(forward) == len({*forward} - {one})
        assert one in known.siblings(one)
        assert known.parent(one) is None or one in known.children(known.parent(one) or "")
    assert {*known.tips} == {*known} - {*parents.values()}
    assert known.depths.keys() == {*known}
    in_loops = [one for loop in known.loops() for one in loop]
    assert len(in_loops) == len({*in_loops})
    for loop in known.loops():
        assert [known.parent(one) for one in loop] == [*loop[1:], loop[0]]


@given(st.lists(st.tuples(NODES, TASKS), min_size=1, max_size=5))
def test_namespaces_are_taken_apart_and_put_together(parts: list[tuple[str, str | None]]) -> None:
    ns, outer = "", ""
    for node, task_id in parts:
        outer, ns = ns, namespace_in(ns, node, task_id)
    assert innermost(ns) == NamespacePart(outer, *parts[-1])
    assert innermost(f"{ns}|3") == NamespacePart(outer, *parts[-1], "3")
    assert [(one.node, one.task_id) for one in levels(ns)] == parts
    assert levels(ns)[-1].outer == outer
    assert graph_of(ns) == tuple(node for node, _ in parts)
    assert namespace_kind(ns) == namespace_kind(f"{ns}|3") == "|".join(node for node, _ in parts)
    assert depth_of(ns) == len(parts)
    assert is_subgraph_call(ns) == (parts[-1][1] is not None)
    assert is_in_call(ns) == any(task_id is not None for _, task_id in parts) != is_stateful(ns)


def test_the_root_graph_is_no_call_and_a_hostile_namespace_is_cut() -> None:
    assert (levels(""), depth_of("")) == ([], 0)
    assert not is_subgraph_call("")
    assert not is_stateful("")
    assert len(levels("a:1|" * 10_000)) == DEEPEST
