"""Going from one checkpoint to the next, by their parents."""

from __future__ import annotations

from itertools import islice

from ckpt_cli.core.tree import Parentage

FORKED = Parentage(
    {
        ("", "f"): "c",
        ("", "e"): "b",
        ("sub", "d"): None,
        ("", "d"): "c",
        ("", "c"): "b",
        ("", "b"): "a",
        ("", "a"): None,
    }
)


def _ids(keys: object) -> str:
    assert hasattr(keys, "__iter__")
    return "".join(checkpoint_id for _, checkpoint_id in keys)


def test_back_goes_to_the_first_checkpoint() -> None:
    assert _ids(FORKED.back(("", "f"))) == "cba"
    assert _ids(FORKED.back(("sub", "d"))) == ""


def test_forward_goes_to_the_newest_checkpoint_or_to_where_one_came_from() -> None:
    assert _ids(FORKED.forward(("", "a"), None)) == "bcf"
    assert _ids(FORKED.forward(("", "a"), ("", "d"))) == "bcd"
    assert _ids(FORKED.forward(("", "b"), ("", "e"))) == "e"
    assert _ids(FORKED.forward(("", "a"), ("", "b"))) == "bcf"
    assert _ids(FORKED.forward(("", "c"), ("", "e"))) == "f"
    assert _ids(FORKED.forward(("", "d"), None)) == ""


def test_siblings_have_the_same_parent_even_if_it_is_gone() -> None:
    assert _ids(FORKED.siblings(("", "d"))) == "df"
    assert _ids(FORKED.siblings(("", "c"))) == "ce"
    pruned = Parentage({("", "z"): "gone", ("", "y"): "gone", ("", "x"): "other"})
    assert _ids(pruned.siblings(("", "z"))) == "yz"
    assert pruned.parent(("", "z")) is None
    assert pruned.misses_parent(("", "z"))
    assert not FORKED.misses_parent(("", "a"))


def test_a_loop_of_parents_ends() -> None:
    loop = Parentage({("", "c"): "b", ("", "b"): "a", ("", "a"): "c"})
    assert _ids(islice(loop.back(("", "c")), 9)) == "ba"
    assert len(list(islice(loop.forward(("", "a"), None), 9))) == 2
