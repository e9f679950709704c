"""What follows a node, from the checkpoints that came after it."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from ckpt_cli.core.state import Body, Followers, followers_of, learn_followers
from tests.kit.cases import cases

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


AGAIN = after({}, review="review")
INDEXED = after({"review": {"draft": 4}, "index": {"draft": 4}}, review="review", index="index")
ELSEWHERE = AGAIN._replace(seen={**AGAIN.seen, "review": {"start:review": 3}})


@cases(
    "source body follow",
    pytest.param("loop", INDEXED, {"review", "index"}, id="a run that passed it"),
    pytest.param("input", after({"review": {"draft": 4}}), {"review"}, id="it was dropped"),
    pytest.param("input", after({}), set(), id="an input passed it unread"),
    pytest.param("update", after({"review": {}}, review="review"), {"review"}, id="an update"),
    pytest.param("update", ELSEWHERE, None, id="an update as a node that runs from elsewhere"),
    pytest.param("update", after({}, draft="draft"), None, id="an update as the node itself"),
)
def test_what_follows_a_node(source: str, body: Body, follow: set[str] | None) -> None:
    found = learned(("loop", AFTER_DRAFT), (source, body))
    assert following("draft", NOTHING, found) == follow
    assert following("other", NOTHING, found) is None


def test_other_graphs_and_threads_that_disagree_tell_nothing() -> None:
    ended = learned(("loop", AFTER_DRAFT), ("input", after({})))
    other_start = ended._replace(entries={"start:write"})
    other_state = ended._replace(state={"title"})
    other_edges = ended._replace(passed={**ended.passed, "review": frozenset({"publish"})})
    own = learned(("loop", AFTER_DRAFT))._replace(passed={"review": frozenset()})
    assert following("draft", own, ended) == frozenset()
    for one in (other_start, other_state, other_edges):
        assert following("draft", own, one) is None
    followed = learned(("loop", AFTER_DRAFT), ("loop", after({"review": {"draft": 4}})))
    assert following("draft", NOTHING, ended, followed) is None
    assert following("draft", learned(("loop", AFTER_DRAFT))) is None
    assert following("draft", followed, ended) == {"review"}
    assert following("draft", own, ended._replace(joins={"join:draft+notes:print"})) is None
    apart = ended._replace(joins={"join:redraft+notes:print"})
    assert following("draft", own, apart) == frozenset()
