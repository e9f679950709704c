"""A queue of batches that may be larger than the memory."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from tempfile import SpooledTemporaryFile
from typing import Generic, TypeVar

_Item = TypeVar("_Item")
_IN_MEMORY = 4 << 20
_LENGTH = 8


class BatchQueue(Generic[_Item]):
    """Batches in the order in which they were added; most of them in a file without a name.

    The file has the form in which processes send each other objects. No one else can open it.
    """

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - closed by `close`
        self._start = self._end = 0

    def append(self, batch: list[_Item]) -> None:
        """Add a batch at the end."""
        data = bytes(ForkingPickler.dumps(batch))
        self._file.seek(self._end)
        self._file.write(len(data).to_bytes(_LENGTH, "big"))
        self._file.write(data)
        self._end = self._file.tell()

    def next(self) -> list[_Item] | None:
        """Return the first batch and forget it; None if there is none."""
        if self._start == self._end:
            return None
        self._file.seek(self._start)
        length = int.from_bytes(self._file.read(_LENGTH), "big")
        found: list[_Item] = ForkingPickler.loads(self._file.read(length))
        self._start = self._file.tell()
        return found

    def close(self) -> None:
        """Remove the file."""
        self._file.close()
