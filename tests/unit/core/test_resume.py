"""What a resume does, rule by rule, on bodies made by hand; `tests/resume` runs the library."""

import pytest

from ckpt_backends.model import NULL_TASK_ID, Write
from ckpt_cli.core.resume import following, goto_tasks, resume_level
from ckpt_cli.core.state import Body, Readers
from ckpt_cli.core.tasks import send_path
from tests.unit.core.steps import body, plan, pull, write

BOTH = {"branch:to:a": None, "branch:to:b": None}


def after(
    at: Body,
    *rows: Write,
    sent: tuple[Write, ...] = (),
    learned: Readers | None = None,
    deferred: dict[str, bool] | None = None,
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    return following(
        at,
        plan(at, rows).tasks,
        sends=lambda: sent,
        learned=lambda: learned or {},
        deferred=lambda _: deferred or {},
    )


def test_edges_name_the_nodes_that_follow() -> None:
    at = body({"branch:to:a": None})
    assert after(at, write("1", "branch:to:b", path=pull("a"))) == (("b",), ())
    # Two nodes follow, and nothing stored tells whether one of them waits for the other.
    rows = [write("1", f"branch:to:{node}", path=pull("a"), idx=n) for n, node in enumerate("cb")]
    assert after(at, *rows) == (None, ("b", "c"))
    plain = {"branch:to:b": False, "branch:to:c": False}
    assert after(at, *rows, deferred=plain) == (("b", "c"), ())
    known = {"branch:to:b": False, "branch:to:c": True}
    assert after(at, *rows, deferred=known) == (("b",), ())
    assert after(at, write("1", "log", path=pull("a"))) == ((), ())


def test_a_join_follows_when_all_have_arrived() -> None:
    both = body(BOTH)
    arrive = [write(node, "join:a+b:total", node, pull(node)) for node in "ab"]
    assert after(both, *arrive) == (("total",), ())
    one = body({"branch:to:a": None, "join:a+b:total": ["b"]})
    assert after(one, arrive[0]) == (("total",), ())
    assert after(body({"branch:to:a": None}), arrive[0]) == ((), ())
    # It was complete, so that its node ran in this step, and one arrives anew.
    over = body({"branch:to:a": None, "join:a+b:total": ["a", "b"]})
    assert after(over, arrive[0], write("t", "log", path=pull("total"))) == ((), ())


@pytest.mark.parametrize("value", [[None, False], [["a", "b"], False]])
def test_a_deferred_node_follows_when_nothing_else_does(value: object) -> None:
    channel = "branch:to:late" if value == [None, False] else "join:a+b:late"
    at = body({"branch:to:x": None, channel: value})
    assert after(at, write("1", "log", path=pull("x"))) == (("late",), ())
    more = write("1", "branch:to:y", path=pull("x"))
    assert after(at, more) == (None, ("late", "y"))
    assert after(at, more, deferred={"branch:to:y": False}) == (("y",), ())
    assert after(at, more, deferred={"branch:to:y": True}) == (("late", "y"), ())
    # It has had its turn, and is the one that finished.
    over = body({"branch:to:x": [None, True]})
    assert after(over, write("1", "log", path=pull("x"))) == ((), ())
    half = body({"branch:to:x": None, "join:a+b:late": [["a"], False]})
    assert after(half, write("1", "log", path=pull("x"))) == ((), ())


def test_sends_follow_in_their_order() -> None:
    at = body({"branch:to:a": None})
    first = write("1", "__pregel_tasks", {"node": "w", "args": 1}, pull("a"), 0)
    second = write("1", "__pregel_tasks", {"node": "v", "args": 2}, pull("a"), 1)
    assert after(at, first, second, sent=(first, second)) == (("w", "v"), ())
    assert after(at, first, sent=(first._replace(value=None),))[0] is None


def test_before_format_4_nodes_read_the_channel_of_the_node_before_them() -> None:
    at = body({"start:a": "__start__"}, v=2)
    rows = [write("1", "a", "a", pull("a")), write("1", "log", path=pull("a"), idx=1)]
    assert after(at, *rows, learned={"a": {"b"}}) == (("b",), ())
    assert after(at, *rows)[0] is None


def test_a_callers_command_starts_nodes_beside_those_that_wait_and_replaces_sends() -> None:
    at = body({"branch:to:a": None})
    rows = [write(NULL_TASK_ID, "branch:to:b"), write(NULL_TASK_ID, "__resume__", "yes")]
    assert goto_tasks(at, rows, tuple) == [("b", pull("b"))]
    level = resume_level(at, rows, plan(at, rows), [("b", pull("b")), ("a", pull("a"))])
    assert ([task.node for task in level.runs], level.started) == (["a"], ("b",))
    old = {"node": "w", "args": 1}
    at = body({"__pregel_tasks": [old]})
    rows = [write(NULL_TASK_ID, "__pregel_tasks", {"node": "v", "args": 2})]
    path = send_path(0, 4)
    assert goto_tasks(at, rows, lambda: rows) == [("v", path)]
    level = resume_level(at, rows, plan(at, rows), [("v", path)])
    assert (level.runs, level.started) == ((), ("v",))
