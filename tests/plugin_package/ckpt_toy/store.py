"""Reads `{"thread": ID, "checkpoints": [{"id": ID, "values": {...}}, ...]}`, oldest first."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Unpack

from ckpt_backends.base import BaseStore
from ckpt_backends.errors import StoreUnavailable, UnknownLayout
from ckpt_backends.model import (
    Capability,
    Checkpoint,
    CheckpointKey,
    StoreInfo,
    Thread,
    TypedBytes,
    Write,
)
from ckpt_backends.protocol import CheckpointOptions, CheckpointQuery, WriteOptions
from ckpt_backends.rows import Row
from ckpt_backends.url import StoreUrl


def open_store(url: StoreUrl) -> ToyStore:
    """Raises `StoreUnavailable` or `UnknownLayout`."""
    try:
        with open(url.path, encoding="utf-8") as file:
            found = json.load(file)
    except OSError as error:
        raise StoreUnavailable(f"cannot open '{url}': {error.strerror}") from error
    except ValueError as error:
        raise UnknownLayout(f"'{url}' is not JSON") from error
    return ToyStore(url, found)


class ToyStore(BaseStore):
    """The thread of one file."""

    def __init__(self, url: StoreUrl, found: Any) -> None:
        self._url = url
        self._thread: str = found["thread"]
        self._checkpoints: list[dict[str, Any]] = found["checkpoints"]

    def close(self) -> None:
        """Nothing is open."""

    def describe(self) -> StoreInfo:
        can = Capability.HISTORY | Capability.INLINE_VALUES
        size = os.path.getsize(self._url.path)
        return StoreInfo("toy", str(self._url), "JSON", "a toy", can, (), size)

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        if limit != 0:
            head = self._checkpoints[-1]["id"]
            yield Thread(self._thread, head, None, None, len(self._checkpoints), 1)

    def checkpoints(
        self, thread_id: str, **options: Unpack[CheckpointOptions]
    ) -> Iterator[Checkpoint]:
        asked = CheckpointQuery(**options)
        if thread_id != self._thread or asked.checkpoint_ns:
            return
        parents = {new["id"]: old["id"] for old, new in pairwise(self._checkpoints)}
        for step, one in reversed(list(enumerate(self._checkpoints))):
            if asked.checkpoint_ids is not None and one["id"] not in asked.checkpoint_ids:
                continue
            body = {"v": 4, "id": one["id"], "channel_values": one["values"], "versions_seen": {}}
            body["channel_versions"] = dict.fromkeys(one["values"], step + 1)
            metadata = {"source": "loop", "step": step}
            yield Checkpoint(
                CheckpointKey(thread_id, "", one["id"]),
                parents.get(one["id"]),
                _json(body) if asked.body else None,
                _json(metadata) if asked.metadata else None,
            )

    def writes(self, thread_id: str, **options: Unpack[WriteOptions]) -> Iterator[Write]:
        """None: a file has no writes."""
        return iter(())

    def rows(self, thread_id: str) -> Iterator[Row]:
        for one in self._checkpoints if thread_id == self._thread else []:
            yield Row("checkpoints", {"id": one["id"], "values": json.dumps(one["values"])})


def _json(value: object) -> TypedBytes:
    return TypedBytes("json", json.dumps(value).encode())
