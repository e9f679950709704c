"""Tells which of two threads went on, if only the answers and questions of a step differ.

A saver replaces these writes: `__interrupt__` when a node asks again, and `__resume__`, the list of
the answers of a task, with each further answer. The other writes and all checkpoints stay.
"""

from __future__ import annotations

from collections.abc import Iterable

from ckpt_backends.codec import decode, to_json
from ckpt_backends.model import NULL_TASK_ID
from ckpt_backends.transfer.parts import WritePart, part_key
from ckpt_cli.core.tasks.control_channels import RESUME


def went_on(old: Iterable[WritePart], new: Iterable[WritePart], *, has_more: bool) -> bool:
    """Return whether the new writes replace the old ones because their thread went on.

    That is so if no answer of a task changed, and there are more of them, or `has_more` rows.
    """
    answers = {part_key(part): to_json(decode(part.value)) for part in old if _is_answers(part)}
    for part in filter(_is_answers, new):
        before, now = answers.get(part_key(part)), to_json(decode(part.value))
        if not (isinstance(before, list) and isinstance(now, list)):
            return False
        if now[: len(before)] != before:
            return False
        has_more |= len(now) > len(before)
    return has_more


def _is_answers(write: WritePart) -> bool:
    """Whether a write holds the answers that a task was given."""
    return write.channel == RESUME and write.task_id != NULL_TASK_ID
