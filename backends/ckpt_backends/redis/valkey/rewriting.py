"""Replaces values in the texts of ValkeySaver, one key after the other.

Each key is watched while it is read and written. Its time to live stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from redis import exceptions

from ckpt_backends.changes.change import Change, moved
from ckpt_backends.errors import StoreChanged
from ckpt_backends.model import CheckpointKey
from ckpt_backends.redis.valkey.contents import ValkeyContents
from ckpt_backends.redis.valkey.stored_values import (
    checkpoint_text,
    stored_checkpoint,
    stored_writes,
    value_fields,
    writes_text,
)
from ckpt_backends.transfer.parts import CheckpointPart, PartRewrite, ValuePart, WritePart


class ValkeyRewriting:
    """Replaces values of one thread."""

    def __init__(self, layout: ValkeyContents, thread_id: str) -> None:
        self._layout = layout
        self._thread_id = thread_id

    def run(self, rewrites: Iterable[PartRewrite]) -> None:
        """See `WritableStore.rewrite`. Raises `StoreChanged`, and the driver's errors."""
        for (key, is_checkpoint), some in groupby(rewrites, _key_of):
            if is_checkpoint:
                name = self._layout.checkpoint_name(key)
            else:
                name = self._layout.writes_name(key)
            self._replace(name, list(some))

    def _replace(self, name: bytes, rewrites: Sequence[PartRewrite]) -> None:
        """Replace the text of one key."""
        with self._layout.connection.transaction([name]) as pipe:
            pipe.watch(name)
            stored = self._layout.connection.ask("GET", name) or b""
            text = self._new_text(stored, rewrites)
            pipe.multi()
            pipe.execute_command("SET", name, text, "KEEPTTL")
            try:
                pipe.execute()
            except exceptions.WatchError:
                raise self._moved() from None

    def _new_text(self, text: bytes, rewrites: Sequence[PartRewrite]) -> bytes:
        first = rewrites[0]
        if isinstance(first.stored, CheckpointPart) and isinstance(first.new, CheckpointPart):
            found = stored_checkpoint(text)
            if (found.body, found.metadata) != (first.stored.body, first.stored.metadata):
                raise self._moved()
            return checkpoint_text(found.fields, first.new.body, None)
        elements = {(one.task_id, one.idx): one for one in stored_writes(text)}
        made = {place: one.fields for place, one in elements.items()}
        for one in rewrites:
            if isinstance(one.stored, WritePart) and isinstance(one.new, WritePart):
                place = one.new.task_id, one.new.idx
                if place not in elements or elements[place].value != one.stored.value:
                    raise self._moved()
                made[place] = {**elements[place].fields, **value_fields(one.new.value)}
        return writes_text(made.values())

    def _moved(self) -> StoreChanged:
        return moved(Change(self._thread_id, {}))


def _key_of(one: PartRewrite) -> tuple[CheckpointKey, bool]:
    """The checkpoint of a part, and whether the part is the checkpoint itself."""
    part = one.stored
    if isinstance(part, ValuePart):
        raise TypeError("values are stored in bodies")
    return part.key, isinstance(part, CheckpointPart)
