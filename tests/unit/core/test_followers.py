"""What follows a node, from the checkpoints that came after it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ckpt_cli.core.state import Body, Followers, followers_of, learn_followers

Told = tuple[str, str | None, str | None, Body]


def at(
    values: Mapping[str, Any], versions: Mapping[str, int], seen: Mapping[str, Mapping[str, int]]
) -> Body:
    return Body(1, None, values, versions, seen, None)


def learned(*oldest_first: tuple[str, Body]) -> Followers:
    """What the checkpoints of one branch tell."""
    told: list[Told] = [
        (str(place), str(place - 1), source, body)
        for place, (source, body) in enumerate(oldest_first)
    ]
    return learn_followers(reversed(told))


def following(node: str, own: Followers, *others: Followers) -> Collection[str] | None:
    return followers_of(node, own, lambda: others)


AFTER_DRAFT = at(
    {"draft": "draft", "text": ""},
    {"__start__": 2, "start:draft": 3, "draft": 4, "text": 4},
    {"__start__": {"__start__": 1}, "draft": {"start:draft": 3}},
)
NOTHING = learn_followers(())


def after(seen: Mapping[str, Mapping[str, int]], **values: str) -> Body:
    versions = {**AFTER_DRAFT.versions, "draft": 5, **dict.fromkeys(values, 5)}
    return at(values, versions, {**AFTER_DRAFT.seen, **seen})  # type: ignore[arg-type,dict-item]


def test_a_run_that_passed_a_node_names_all_that_follow_it() -> None:
    ran = after({"review": {"draft": 4}, "index": {"draft": 4}}, review="review", index="index")
    found = learned(("loop", AFTER_DRAFT), ("loop", ran))
    assert found.passed["draft"] == {"review", "index"}
    assert following("draft", NOTHING, found) == {"review", "index"}


def test_a_node_that_a_new_input_dropped_follows_too() -> None:
    dropped = after({"review": {"draft": 4}})
    assert learned(("loop", AFTER_DRAFT), ("input", dropped)).passed["draft"] == {"review"}


def test_nothing_follows_a_node_that_an_input_passed_unread() -> None:
    found = learned(("loop", AFTER_DRAFT), ("input", after({})))
    assert following("draft", NOTHING, found) == frozenset()
    assert following("other", NOTHING, found) is None


def test_an_update_tells_as_which_node_the_caller_acted() -> None:
    found = learned(("loop", AFTER_DRAFT), ("update", after({"review": {}}, review="review")))
    assert found.passed == {}
    assert following("draft", NOTHING, found) == {"review"}


def test_an_update_as_a_node_that_runs_from_elsewhere_tells_nothing() -> None:
    again = after({}, review="review")
    ran = again._replace(seen={**again.seen, "review": {"start:review": 3}})
    assert following("draft", NOTHING, learned(("loop", AFTER_DRAFT), ("update", ran))) is None


def test_an_update_as_the_node_itself_tells_nothing() -> None:
    found = learned(("loop", AFTER_DRAFT), ("update", after({}, draft="draft")))
    assert following("draft", found) is None


def test_threads_of_other_graphs_are_not_asked() -> None:
    ended = learned(("loop", AFTER_DRAFT), ("input", after({})))
    other_start = ended._replace(entries={"start:write"})
    other_state = ended._replace(state={"title"})
    other_edges = ended._replace(passed={**ended.passed, "review": frozenset({"publish"})})
    own = learned(("loop", AFTER_DRAFT))._replace(passed={"review": frozenset()})
    assert following("draft", own, ended) == frozenset()
    for one in (other_start, other_state, other_edges):
        assert following("draft", own, one) is None


def test_threads_that_disagree_tell_nothing() -> None:
    ended = learned(("loop", AFTER_DRAFT), ("input", after({})))
    followed = learned(("loop", AFTER_DRAFT), ("loop", after({"review": {"draft": 4}})))
    assert following("draft", NOTHING, ended, followed) is None
    assert following("draft", followed, ended) == {"review"}


def test_a_thread_whose_nodes_wrote_to_a_join_is_of_another_graph() -> None:
    ended = learned(("loop", AFTER_DRAFT), ("input", after({})))
    joined = ended._replace(joins={"join:draft+notes:print"})
    own = learned(("loop", AFTER_DRAFT))
    assert following("draft", own, joined) is None
    apart = ended._replace(joins={"join:redraft+notes:print"})
    assert following("draft", own, apart) == frozenset()
