"""Why a lost value is not made again of the writes to it."""

import json
from typing import Any

import pytest

from ckpt_backends.codec.edits import Reassembly
from ckpt_backends.codec.values import Value
from ckpt_backends.model import CheckpointKey, TypedBytes, Write
from ckpt_cli.core.replay import Check, Judgement, WriteOrder
from ckpt_cli.core.tasks import TaskWrite
from ckpt_cli.plans.repair import CannotRebuild, rebuild
from ckpt_cli.queries.replay import Lost
from tests.kit.cases import cases

NAME_IT = "name it with --reducer"
ORDERS = [[["b"], ["c"]], [["c"], ["b"]]]


def wrote(value: Any) -> TaskWrite:
    data = TypedBytes("json", json.dumps(value).encode())
    key = CheckpointKey("t", "", "1")
    return TaskWrite(Write(key, "1", "", 0, "log", len(data.data), data), "node", "")


def judged(*survivors: str, against: int = 0) -> Judgement:
    return Judgement(survivors, 1, against)


@cases(
    "judgement orders lacks why",
    (judged(), [[["b"]]], "", f"the reducer of the channel is unknown; {NAME_IT}"),
    (judged("append"), [[["b"]]], "the parent is not stored", "the parent is not stored"),
    (judged("append"), [[]], "", "what was written to it is not stored"),
    (
        *(judged("append", against=1), [[["b"]]], ""),
        f"the reducer of the channel is uncertain; {NAME_IT}",
    ),
    (judged("custom"), [[["b"]]], "", "the channel has a custom reducer"),
    (judged("dict_merge"), [[7]], "", "the recorded writes produce no value"),
    (
        *(judged("append", "last_value"), [[["b"]]], ""),
        "ambiguous: append and last_value both fit and produce different values;"
        " name the reducer with --reducer",
    ),
    (judged("append"), ORDERS, "", "the order of the writes is not stored"),
)
def test_a_value_that_does_not_follow_is_not_rebuilt(
    judgement: Judgement, orders: list[list[Any]], lacks: str, why: str
) -> None:
    ways = tuple(WriteOrder((tuple(map(wrote, one)),)) for one in orders)
    unread: Any = None
    check = Check("log", "2", 0, 0, len(orders[0]))
    lost = Lost(unread, unread, ways, lacks, check, None)
    base: Value = ["a"]
    with pytest.raises(CannotRebuild) as raised:
        rebuild(unread, lost, judgement, base, Reassembly(), "json")
    assert str(raised.value) == why
