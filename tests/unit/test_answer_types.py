"""Answers of servers: what a method returns must have the types that it promises."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ckpt_backends.errors import Unreadable
from ckpt_backends.model import BlobKey, Checkpoint, CheckpointKey, ThreadSize
from ckpt_backends.servers import checked

if TYPE_CHECKING:
    from ckpt_backends.protocol import Store


@checked("size", "size_of", "keys", "checkpoints")
class Answering:
    """A store that returns what a server sent."""

    _url = SimpleNamespace()

    def __init__(self, sent: Any) -> None:
        self._sent = sent

    def size(self) -> ThreadSize:
        return ThreadSize(1, self._sent, 0)

    def size_of(self, store: Store | None) -> ThreadSize:
        return ThreadSize(1, self._sent, 0)

    def keys(self) -> Iterator[BlobKey]:
        yield BlobKey("", "messages", self._sent)

    def checkpoints(self) -> Iterator[Checkpoint]:
        yield Checkpoint(CheckpointKey("a", "", self._sent), None)


def test_a_field_of_a_named_tuple_with_a_wrong_type_is_refused() -> None:
    assert Answering(2).size().writes == 2
    assert next(Answering("1").keys()).version == "1"
    with pytest.raises(Unreadable):
        Answering("2").size()
    with pytest.raises(Unreadable):
        next(Answering(1).keys())


def test_types_of_parameters_need_not_exist() -> None:
    assert Answering(2).size_of(None).writes == 2
    with pytest.raises(Unreadable):
        Answering("2").size_of(None)


def test_a_field_of_a_dataclass_with_a_wrong_type_is_refused() -> None:
    assert next(Answering("1").checkpoints()).key.checkpoint_id == "1"
    with pytest.raises(Unreadable):
        next(Answering(1).checkpoints())
