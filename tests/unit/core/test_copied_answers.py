"""Answers that were added since a copy do not make two threads different; other answers do."""

from __future__ import annotations

import ormsgpack
import pytest

from ckpt_backends.model import NULL_TASK_ID, CheckpointKey, Record, TypedBytes
from ckpt_cli.core.copying import went_on

KEY = CheckpointKey("thread", "", "1f")


def answers(*given: str, task_id: str = "task") -> Record:
    value = TypedBytes("msgpack", ormsgpack.packb(given))
    return Record.write(KEY, task_id, "", -4, "__resume__", value)


def question(text: str) -> Record:
    value = TypedBytes("msgpack", ormsgpack.packb([text]))
    return Record.write(KEY, "task", "", -3, "__interrupt__", value)


@pytest.mark.parametrize(
    ("old", "new", "has_more", "is_ahead"),
    [
        ([answers("a")], [answers("a", "b")], False, True),
        ([answers("a"), question("q")], [answers("a", "b"), question("r")], False, True),
        ([question("q")], [question("r")], True, True),
        ([question("q")], [question("r")], False, False),
        ([answers("a", "b")], [answers("a")], True, False),
        ([answers("a")], [answers("b", "c")], True, False),
        ([answers("a", task_id=NULL_TASK_ID)], [answers("b", task_id=NULL_TASK_ID)], True, True),
    ],
)
def test_a_thread_went_on_if_its_answers_were_only_added_to(
    old: list[Record], new: list[Record], has_more: bool, is_ahead: bool
) -> None:
    assert went_on(old, new, has_more=has_more) is is_ahead
