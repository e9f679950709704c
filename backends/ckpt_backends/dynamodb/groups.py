"""Checkpoints with their writes and payloads, which are removed together, and put back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError

from ckpt_backends.dynamodb.connect import Attributes, DynamoConnection, Key
from ckpt_backends.dynamodb.items import CHUNK_SORT, CheckpointItem, DynamoItem, WriteItem
from ckpt_backends.dynamodb.plan import places_of
from ckpt_backends.dynamodb.writer import (
    IS_NEW,
    DynamoAction,
    DynamoWriter,
    delete,
    fits_together,
    in_transactions,
    put,
)
from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.model import CheckpointKey

_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class ItemGroup:
    """A checkpoint with its writes; of a missing checkpoint, only its writes."""

    key: CheckpointKey
    item: CheckpointItem | None
    writes: Sequence[WriteItem]

    @property
    def items(self) -> list[DynamoItem]:
        """The writes, then the checkpoint."""
        return [*self.writes, *([self.item] if self.item is not None else [])]

    @property
    def order(self) -> tuple[bool, bool, str]:
        """The order of removing: the newest root checkpoint last."""
        return self.item is not None, not self.key.checkpoint_ns, self.key.checkpoint_id


def groups_of(items: Iterable[DynamoItem]) -> Iterator[ItemGroup]:
    """The groups of a list in which each checkpoint comes after its writes."""
    writes: list[WriteItem] = []
    for one in items:
        if isinstance(one, WriteItem):
            writes.append(one)
        else:
            yield ItemGroup(one.key, one, writes)
            writes = []


def removing_actions(groups: Iterable[ItemGroup], condition: str = "") -> list[DynamoAction]:
    """The actions that remove groups; `condition` is that of the items, not of payloads."""
    places = dict.fromkeys(k for group in groups for one in group.items for k in places_of(one))
    return [delete(key, "" if key[1] == CHUNK_SORT else condition) for key in places]


def removing_steps(groups: Iterable[ItemGroup]) -> Iterator[list[ItemGroup]]:
    """The groups, as many together as fit into a transaction."""
    some: list[ItemGroup] = []
    for one in groups:
        if some and not fits_together(removing_actions([*some, one])):
            yield some
            some = []
        some.append(one)
    if some:
        yield some


class RemovedItems:
    """Removes groups, and keeps in memory what it removed until that is certain."""

    def __init__(self, connection: DynamoConnection) -> None:
        self._connection = connection
        self._writer = DynamoWriter(connection)
        self._items: dict[Key, Attributes] = {}

    def remove(
        self,
        step: Sequence[ItemGroup],
        condition: str = "",
        more: Sequence[DynamoAction] = (),
        *,
        keeps: bool = True,
    ) -> None:
        """Remove the groups of one step, with `more` in the same transaction."""
        actions = removing_actions(step, condition)
        fits = fits_together([*actions, *more])
        kept = self._read(step) if keeps or not fits else {}
        if fits:
            self._writer.transact([*actions, *more])
            self._items.update(kept)
            return
        # One checkpoint with many writes: it goes after them.
        self._items.update(kept)
        self._writer.write(actions[:-2])
        self._writer.transact([*actions[-2:], *more])

    def _read(self, step: Sequence[ItemGroup]) -> dict[Key, Attributes]:
        items = [one for group in step for one in group.items]
        places = [key for one in items for key in places_of(one)]
        found = self._connection.get(key for key in places if key[1] == CHUNK_SORT)
        for one in items:
            found[places_of(one)[-1]] = one.attributes
        return found

    def put_back(self) -> bool:
        """Store again what was removed, and keep what somebody stored meanwhile in its place.

        Returns whether all of it exists.
        """
        for _ in range(_ROUNDS):
            try:
                there = self._connection.get(self._items, "")
                missing = [put(one, IS_NEW) for key, one in self._items.items() if key not in there]
                if not missing:
                    return True
                for some in in_transactions(missing):
                    self._writer.transact(some)
            except (ClientError, BotoCoreError, OSError, StoreUnavailable):
                continue
        return not self._items
