"""Moves the pending sends of checkpoints in formats before 4.

LangGraph's SQLite saver stored them in the body of the checkpoint that runs them. Savers that store
values apart look them up in the writes of its parent, which all savers store. From format 4, they
are the value of a channel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ckpt_backends.codec.json.lossless import load_lossless
from ckpt_backends.codec.msgpack.lossless import unpack_lossless
from ckpt_backends.codec.values import JSON_TYPES
from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.bodies import OpenBody
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.kept_values import KeptValues
from ckpt_backends.transfer.parts import CheckpointPart, WritePart

TASKS = "__pregel_tasks"
"""The channel of sends."""
_FIELD = "pending_sends"
_Order = tuple[str, str, int]
"""Task path, task id and idx: the order in which savers read the sends of a checkpoint."""


class PendingSends:
    """The sends that the writes of a thread hold. Writes come before the checkpoints."""

    def __init__(self, kept: KeptValues, opened: Callable[[TypedBytes, str], TypedBytes]) -> None:
        """`opened` decrypts a value; the text names it in messages."""
        self._kept = kept
        self._opened = opened
        self._orders: dict[tuple[str, str], list[_Order]] = {}
        """By namespace and checkpoint."""

    def note(self, part: WritePart) -> None:
        """Remember a write to the channel `TASKS`."""
        key, order = part.key, (part.task_path, part.task_id, part.idx)
        self._orders.setdefault((key.checkpoint_ns, key.checkpoint_id), []).append(order)
        self._kept.put(_place(key.checkpoint_ns, key.checkpoint_id, order), part.value)

    def leave_out(self, part: CheckpointPart, found: OpenBody, where: str) -> None:
        """Remove the sends from a body, for a saver that reads them from the parent's writes.

        Raises `CannotHold` if these are others.
        """
        if not _is_old(found) or not found.fields.get(_FIELD):
            return
        if self._of_parent(part, where) != found.fields[_FIELD]:
            raise CannotHold(f"{where} has pending sends that the writes of its parent do not have")
        found.fields[_FIELD] = []

    def put_in(self, part: CheckpointPart, found: OpenBody, where: str) -> None:
        """Add the sends of the parent's writes to a body, for a saver that reads them from there.

        The first releases for PostgreSQL stored them in the body, too, as a type and base64.
        """
        if _is_old(found):
            found.fields[_FIELD] = self._of_parent(part, where)

    def _of_parent(self, part: CheckpointPart, where: str) -> list[Any]:
        if part.parent is None:
            return []
        ns = part.key.checkpoint_ns
        orders = sorted(self._orders.get((ns, part.parent), ()))
        values = [self._kept.get(_place(ns, part.parent, order)) for order in orders]
        try:
            named = f"a pending send of {where}"
            return [_decoded(self._opened(one, named)) for one in values if one is not None]
        except ValueError as error:
            raise CannotHold(f"a pending send of {where} cannot be read: {error}") from None


def _is_old(found: OpenBody) -> bool:
    """Whether a body has a format before 4. A damaged store may have anything in its place."""
    return found.fields.get("v") in [1, 2, 3]


def _place(ns: str, checkpoint_id: str, order: _Order) -> tuple[str, str, str]:
    """Where a send is kept. No channel has this name, and no version is a tuple."""
    return ns, TASKS, repr((checkpoint_id, *order))


def _decoded(value: TypedBytes) -> Any:
    if value.type == "msgpack":
        return unpack_lossless(value.data)
    if value.type in JSON_TYPES:
        return load_lossless(value.data)
    raise ValueError(f"it has the type '{value.type}'")
