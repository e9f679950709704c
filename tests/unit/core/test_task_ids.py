"""Ids and paths of tasks, and the names of nodes and errors."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.registry import open_store
from ckpt_cli.core import tasks
from ckpt_cli.core.tasks import (
    TaskIdBase,
    error_kind,
    error_start,
    first_line,
    moved_id,
    node_path,
    origin_of,
    path_text,
)
from ckpt_cli.reading.thread import ThreadReader
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, copy_store


def origin(
    checkpoint_id: str, step: int, v: int, ns: str = "", *, is_numeric: bool = False
) -> TaskIdBase:
    found = tasks.origin_of(checkpoint_id, ns, step, v, is_numeric=is_numeric)
    assert found is not None
    return found


def is_among(task_id: str, ids: Iterator[str]) -> bool:
    return task_id in set(ids)


DEEP = "child:1ee24b90-e698-d891-09ec-eb257c51abc3"
JS = {"is_numeric": True}
NODE_IDS = [
    ("lg 1.2.22", "1f1e5fb1-d49f-650c-8000-82528a6163b8", 1, 4, {}, "plan", "branch:to:plan",
     "12774943-7979-55ac-2f14-790d84935edd"),
    ("lg 1.2.22, two triggers", "1f1e5fb1-d514-6009-8003-1de7de5a7a3f", 4, 4, {}, "merge",
     "join:short+longer:merge branch:to:merge", "7cdab40c-2e86-c8d9-896f-38339b6dc565"),
    ("lg 1.2.22, subgraph", "1f1e5fb1-dbde-69a2-8001-af738c0e2c61", 2, 4, {"ns": DEEP}, "deep",
     "branch:to:deep", "f593821e-3c68-e20f-b91a-37f72e88c5cc"),
    ("lg 0.2.70", "1f1e5fb2-8c00-615b-8000-307e2c6c3495", 1, 2, {}, "plan", "start:plan",
     "2f6a6f9b-2388-d136-859c-2603d8c35e63"),
    ("lg 0.2.14", "1f1e5fb2-c2d0-602a-8000-3a04f8e746b9", 1, 1, {}, "plan", "start:plan",
     "3f2607ca-c227-5b9c-b90a-06e993f77152"),
    ("LangGraph.js 1.7.3", "1f1e5fce-d1e6-6ef0-8000-c6bee9bbd033", 1, 4, JS, "p", "branch:to:p",
     "b59b7bc6-9ed5-5cc3-a2a6-ad9be6de31d8"),
    ("LangGraph.js 0.2.74", "1f1e5fcf-dfd6-6f00-8000-c47d4854449e", 1, 1, JS, "p", "branch:to:p",
     "f7183dcb-32ef-54c5-99ab-94518254cce5"),
]  # fmt: skip
SEND_IDS = [
    ("lg 1.2.22", "1f1e5fb1-d4ae-6c20-8001-4e60287459ef", 2, 4, {}, "worker", 2,
     "2dd9198f-d9c4-2d78-4b6c-b0ead3bcf12d"),
    ("lg 0.2.70", "1f1e5fb2-8c0f-677d-8001-f89039edd67a", 2, 2, {}, "worker", 2,
     "1b2ec7ae-c0da-24c3-7dfa-03963cd3e328"),
    ("lg 0.2.14", "1f1e5fb2-c2e6-6fd7-8001-a7774e81a573", 2, 1, {}, "worker", 2,
     "312fddeb-92c6-5825-ae68-fc3d82ef07a6"),
    ("LangGraph.js 1.7.3", "1f1e5fce-d21c-6a50-8001-9cd14e37101b", 2, 4, JS, "w", 1,
     "efc9e048-c764-56e8-97f6-90a3fe1a6819"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("where", "step", "v", "how", "node", "triggers", "task_id"),
    [pytest.param(*row, id=by) for by, *row in NODE_IDS],
)
def test_ids_of_nodes(
    where: str, step: int, v: int, how: Any, node: str, triggers: str, task_id: str
) -> None:
    made_in, fired = origin(where, step, v, **how), triggers.split()
    assert is_among(task_id, tasks.pull_ids(made_in, node, [fired]))
    assert not is_among(task_id, tasks.pull_ids(made_in, node, [[*fired, "other"]]))
    assert not is_among(task_id, tasks.pull_ids(made_in, "other", [fired]))


@pytest.mark.parametrize(
    ("where", "step", "v", "how", "node", "index", "task_id"),
    [pytest.param(*row, id=by) for by, *row in SEND_IDS],
)
def test_ids_of_sends(
    where: str, step: int, v: int, how: Any, node: str, index: int, task_id: str
) -> None:
    made_in = origin(where, step, v, **how)
    assert is_among(task_id, tasks.send_ids(made_in, node, index))
    assert not is_among(task_id, tasks.send_ids(made_in, node, index + 1))


def test_the_id_in_the_oldest_library_holds_the_place_in_the_task_list() -> None:
    made_in = origin("1f1e5fb2-c2e6-6fd7-8001-a7774e81a573", 2, 1)
    after_three_sends = "890d4d12-fef7-5d13-b737-242efeeef21a"
    assert is_among(after_three_sends, tasks.pull_ids(made_in, "audit", [["plan"]], 3))
    assert not is_among(after_three_sends, tasks.pull_ids(made_in, "audit", [["plan"]], 4))


def test_the_ids_of_error_handlers_and_updates() -> None:
    made_in = origin("1f1e5fd7-ec95-6c8e-8001-3d94dad77a44", 2, 4)
    failed = "1a6f18f3-6b62-50e5-6ab3-2ce1654ff731"
    ids = tasks.handler_ids(made_in, "__error_handler__boom", "boom", failed)
    assert is_among("4ad028dc-7919-ebba-df96-b3ec54e1835c", ids)
    found = tasks.update_ids(origin("1f1e5fb1-e164-6590-8002-1ad141da4892", 3, 4), 2)
    assert found["442b98bd-9d2c-58fc-be2d-3a2c9a8f3f22"] == "~__interrupt__, 0000000000"
    assert "~__interrupt__, 0000000001" in found.values()
    assert "" in found.values()


@cases(
    "checkpoint_id step",
    ("42", 1),
    ("", 1),
    ("x" * 32, 1),
    pytest.param("0" * 32, 10**5000, id="huge step"),
)
def test_no_id_can_be_hashed_from_a_foreign_checkpoint(checkpoint_id: str, step: int) -> None:
    assert tasks.origin_of(checkpoint_id, "", step, 4, is_numeric=False) is None


def test_channels_that_fired_are_sure_and_a_few_of_the_others_are_tried() -> None:
    found = list(tasks.trigger_sets({"a", "b", "c"}, {"a"}))
    assert len(found) == len(set(found)) == 7
    assert {frozenset("abc"), frozenset("c")} <= {*found}
    known = {f"c{i:02}" for i in range(40)}
    found = list(tasks.trigger_sets(known, {"c30"}))
    assert len(found) == 2**tasks.SEARCHED + 1
    assert {frozenset(known), frozenset({"c30"})} <= {*found}
    assert all("c30" in names for names in found)
    # Of absurdly many nothing is searched.
    assert len(list(tasks.trigger_sets({f"c{i}" for i in range(5000)}, {"c1", "c2"}))) == 2


@given(st.sets(st.text(max_size=3), max_size=100), st.sets(st.text(max_size=3), max_size=100))
def test_the_search_is_bounded(known: set[str], fired: set[str]) -> None:
    found = list(tasks.trigger_sets(known | fired, fired))
    assert len(found) <= 2**tasks.SEARCHED + 1
    assert frozenset() not in found


def test_paths_of_nodes_and_sends() -> None:
    inner, call = (
        "~~0000000003~__pregel_pull, p1",
        "~__pregel_push, ~__pregel_pull, flow, 0000000002, 0000000001",
    )
    assert tasks.pull_path("a, b") == "~__pregel_pull, a, b"
    assert [*map(tasks.pulled_node, ("~__pregel_pull, a, b", inner))] == ["a, b", "p1"]
    running = [*map(tasks.running_node, ("~__pregel_pull, a, b", inner, call))]
    assert running == ["a, b", None, "flow"]
    assert tasks.is_call(call)
    assert tasks.send_path(7, 4) == "~__pregel_push, 0000000007, 0000000000"
    assert tasks.send_path(7, 2) == "~__pregel_push, 0000000007"
    assert [tasks.sent_index(tasks.send_path(7, v)) for v in (2, 4)] == [7, 7]


@cases(
    "path",
    "",
    "~__interrupt__, 0000000000",
    "~__pregel_push",
    "~__pregel_push, x",
    "~__pregel_push, 9999999999999999999999",
    "~__pregel_push, ~__pregel_pull, flow, 0000000002, 0000000001",
    "~__pregel_push, 0000000000, 0000000000, node_error_handler, 0000000000",
)
def test_other_paths_are_no_sends(path: str) -> None:
    assert tasks.sent_index(path) is None
    assert tasks.pulled_node(path) is None


@pytest.mark.parametrize("failed", [tasks.pull_path("boom"), tasks.send_path(0, 4)])
def test_the_path_of_an_error_handler(failed: str) -> None:
    path = tasks.handler_path(failed)
    assert tasks.is_handler(path)
    assert tasks.pulled_node(path) is None
    assert tasks.sent_index(path) is None


@given(st.text())
def test_any_path_can_be_asked(path: str) -> None:
    tasks.pulled_node(path)
    tasks.running_node(path)
    tasks.sent_index(path)


@given(st.text(), st.text(), st.lists(st.text()), st.integers(-(2**63), 2**63 - 1))
def test_any_name_can_be_hashed(node: str, ns: str, triggers: list[str], step: int) -> None:
    for v in (1, 2, 4):
        made_in = origin("1f1e5fb1-d49f-650c-8000-82528a6163b8", step, v, ns, is_numeric=True)
        for task_id in tasks.pull_ids(made_in, node + "\ud800", [triggers]):
            assert len(task_id) == 36


OTHER = UUID("1f1e5fb3-2ac5-64af-8008-5d0b6978bc63")


@pytest.mark.parametrize("era", ["lg-1.2.22", "js-1.7.3"])
def test_every_stored_id_is_hashed_again(era: str, tmp_path: Path) -> None:
    """At the same checkpoint, the id is the stored one; at another, it is one of its own."""
    tasks = 0
    with open_store(str(copy_store(FIXTURES / era / "store.db", tmp_path))) as store:
        for thread in islice(store.threads(), 40):
            for moment in ThreadReader(store, thread).moments(""):
                origin = origin_of(
                    moment.key.checkpoint_id,
                    "",
                    (moment.number or 0) + 1,
                    moment.body.v,
                    is_numeric=era.startswith("js"),
                )
                assert origin is not None
                copy = origin._replace(checkpoint_id=OTHER, step=origin.step + 1)
                known = [one for one in moment.step.tasks if one.id is not None]
                found = [moved_id(one, moment.body, origin, origin) for one in known]
                assert found == [one.id for one in known]
                moved = {moved_id(one, moment.body, origin, copy) for one in known}
                assert len(moved - {one.id for one in known} - {None}) == len(known)
                tasks += len(known)
    assert tasks > 50


@cases(
    "checkpoint_ns expected",
    ("", "ask"),
    ("memory", "memory > ask"),
    ("research:9c1e", "research > ask"),
    ("research:9c1e|dig:77aa", "research > dig > ask"),
    ("research:9c1e|1", "research > ask"),
    ("research:9c1e|memory", "research > memory > ask"),
)
def test_a_node_is_named_after_the_nodes_that_called_it(checkpoint_ns: str, expected: str) -> None:
    assert path_text(node_path(checkpoint_ns, ["ask"])) == expected


@cases(
    "text kind",
    ("TimeoutError('no answer after 31.5 s')", "TimeoutError('no answer after … s')"),
    ("KeyError('0c5ee4a1-6f5f-4b45-9d2c-3b3b8f8d6d11')", "KeyError('…')"),
    ("ValueError('<Order object at 0x7f3a2c>')", "ValueError('<Order object at …>')"),
    ("OSError('cannot reach 10.0.0.3:5432')", "OSError('cannot reach …')"),
    ("Error: run 9f86d081884c7d65 failed", "Error: run … failed"),
    ("Error: deadbeef and added facade", "Error: deadbeef and added facade"),
    ("RuntimeError('first\\nsecond 2')", "RuntimeError('first …"),
    ("", ""),
)
def test_numbers_and_ids_are_left_out(text: str, kind: str) -> None:
    assert error_kind(text) == kind


@cases(
    "text start",
    ("ValueError('\\n  no route to Kyoto')", "ValueError(' ⏎ no route to Kyoto')"),
    (
        "1 validation error for Trip\ndays\n  Input should be a valid integer\n    More",
        "1 validation error for Trip ⏎ days ⏎ Input should be a valid integer …",
    ),
    ("E: " + "x" * 40 + "\nmore", "E: " + "x" * 40 + " …"),
    ("E('x')\n\n", "E('x')"),
    ("", ""),
)
def test_a_short_first_line_is_shown_with_the_next(text: str, start: str) -> None:
    assert error_start(text) == start


def test_kinds_and_first_lines_are_short() -> None:
    assert len(error_kind("x " * 1_000_000)) == 200
    assert first_line("  one\ntwo") == "one …"
    assert first_line("E('one\\\\nstill one')") == "E('one\\\\nstill one')"
