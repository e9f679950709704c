"""In which order the writes of a step may have been applied, and what that proves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations

from ckpt_backends.model import CheckpointKey, Write
from ckpt_cli.core.replay import (
    PossibleOrders,
    SortedWrites,
    WriteOrder,
    orders_of_channel,
    possible_orders,
    recorded_orders,
)
from ckpt_cli.core.state import Body
from ckpt_cli.core.tasks import Step, TaskWrite

NOON = datetime(2026, 4, 7, 12, tzinfo=UTC)
BODY = Body(4, None, {}, {}, {}, None)
STEP = Step((), (), (), (), assumed=False)


def write(task: str, *, channel: str = "log", second: int = 0, idx: int = 0) -> TaskWrite:
    at = NOON + timedelta(seconds=second)
    key = CheckpointKey("t", "", "1")
    return TaskWrite(Write(key, task, "", idx, channel, 1, None, "node", at), "node", "")


def tasks_in(order: WriteOrder) -> str:
    return "".join(one.write.task_id for batch in order.batches for one in batch)


def made(*tasks: TaskWrite, ordered: bool) -> PossibleOrders:
    return PossibleOrders((WriteOrder((tasks,)),), ordered)


def test_every_order_of_tasks_is_tried_where_none_is_stored() -> None:
    abc = tuple(map(write, "abc"))
    orders = list(orders_of_channel(made(*abc, ordered=False), "log"))
    assert tasks_in(orders[0]) == "abc"
    assert {tasks_in(one) for one in orders} == set(map("".join, permutations("abc")))
    assert [one.assumed for one in orders] == [False] + [True] * 5


def test_the_writes_of_one_task_keep_their_order() -> None:
    abb = (write("a"), write("b", idx=0), write("b", idx=1))
    orders = orders_of_channel(made(*abb, ordered=False), "log")
    assert {tasks_in(one) for one in orders} == {"abb", "bba"}
    indexes = [
        [one.write.idx for batch in order.batches for one in batch if one.write.task_id == "b"]
        for order in orders_of_channel(made(*abb, ordered=False), "log")
    ]
    assert indexes == [[0, 1], [0, 1]]


def test_a_stored_order_is_the_only_one() -> None:
    abc = tuple(map(write, "abc"))
    (order,) = orders_of_channel(made(*abc, ordered=True), "log")
    assert tasks_in(order) == "abc"
    assert not order.assumed


def test_the_times_of_writes_are_an_order_unless_two_tasks_have_the_same() -> None:
    for times, is_ordered in (((1, 2, 3), True), ((1, 2, 2), False)):
        abc = [write(name, second=second) for name, second in zip("abc", times, strict=True)]
        found = recorded_orders(SortedWrites((), tuple(abc), (), ()))
        assert found.ordered is is_ordered
        assert [tasks_in(one) for one in found.ways] == ["abc"]


def test_a_parent_that_ran_twice_proves_nothing() -> None:
    writes = SortedWrites((), (write("a"),), (), ())

    def lacks(*, again: bool) -> str:
        return possible_orders(
            "loop", writes, STEP, BODY, BODY, again=again, skipped=False, takes_input=False
        ).lacking

    assert lacks(again=False) == ""
    assert "more than once" in lacks(again=True)
