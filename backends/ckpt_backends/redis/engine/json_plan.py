"""Plans changes of JSON documents: what the savers of Python and JavaScript share."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence

from ckpt_backends.model import CheckpointKey, TypedBytes
from ckpt_backends.redis.engine.command_plan import expiring
from ckpt_backends.redis.engine.connection import Command
from ckpt_backends.redis.engine.json_documents import JsonDocuments
from ckpt_backends.redis.engine.key_plan import AddedWrite, KeyPlan


class JsonPlan(KeyPlan[JsonDocuments]):
    """A change of documents, and of the list of each checkpoint's writes."""

    @abstractmethod
    def flag(self, writes: int) -> bool | str:
        """The field `has_writes` of a checkpoint with so many writes."""

    @abstractmethod
    def score(self, number: int, one: AddedWrite) -> bytes | int:
        """The place of a write in the list of its checkpoint; `number` is its place here."""

    @abstractmethod
    def metadata(self, metadata: TypedBytes) -> bytes | str:
        """Metadata as JSON for a document."""

    def write_name(self, key: CheckpointKey, task_id: str, idx: int) -> bytes:
        return self._layout.write_name(key, task_id, idx)

    def change_copy(
        self, key: CheckpointKey, metadata: TypedBytes | None, body: TypedBytes | None, writes: int
    ) -> Iterator[Command]:
        name = self._layout.checkpoint_name(key)
        thread = self._layout.stored_thread(key.thread_id)
        yield ("JSON.SET", name, "$.thread_id", json.dumps(thread))
        yield ("JSON.SET", name, "$.has_writes", json.dumps(self.flag(writes)))
        if metadata is not None:
            yield ("JSON.SET", name, "$.metadata", self.metadata(metadata))
        if body is not None:
            yield ("JSON.SET", name, "$.checkpoint", body.data)

    def change_copied_write(self, name: bytes, key: CheckpointKey) -> Iterator[Command]:
        thread = self._layout.stored_thread(key.thread_id)
        yield ("JSON.SET", name, "$.thread_id", json.dumps(thread))
        yield ("JSON.SET", name, "$.checkpoint_id", json.dumps(key.checkpoint_id))

    def register(
        self, key: CheckpointKey, added: Sequence[AddedWrite], expiry: int
    ) -> Iterator[Command]:
        listed = self._layout.lists(key)[0]
        for number, one in enumerate(added):
            yield ("ZADD", listed, self.score(number, one), one.name)
        yield from expiring(listed, expiry)

    def remove(self, key: CheckpointKey, writes: Sequence[bytes]) -> Iterator[Command]:
        listed = self._layout.lists(key)[0]
        yield ("UNLINK", self._layout.checkpoint_name(key), listed, *writes)
