"""Answers of the caller that were used, but would be given to another question."""

from __future__ import annotations

from collections.abc import Iterable

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Value
from ckpt_backends.model import NULL_TASK_ID, Write
from ckpt_cli.core.tasks.control_channels import RESUME
from ckpt_cli.core.values.equality import same


def callers_answer(writes: Iterable[Write]) -> Write | None:
    """Return the answer that the caller gave last at a checkpoint; None if there is none."""
    return next(
        (one for one in writes if one.task_id == NULL_TASK_ID and one.channel == RESUME), None
    )


def is_used(answer: Write, writes: Iterable[Write]) -> bool:
    """Return whether a task has taken the answer: its own list of answers has an equal one.

    LangGraph does not remove the caller's answer then, and `invoke(None)` gives it to the next
    question (langgraph issue 8837).
    """
    if answer.value is None:
        return False
    wanted = decode(answer.value)
    return any(
        same(one, wanted)
        for write in writes
        if write.task_id != NULL_TASK_ID and write.channel == RESUME and write.value is not None
        for one in _answers(decode(write.value))
    )


def _answers(value: Value) -> list[Value]:
    return value if isinstance(value, list) else [value]
