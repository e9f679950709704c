"""What holds resources until it is closed."""

from __future__ import annotations

from abc import abstractmethod
from types import TracebackType
from typing import Protocol, Self


class Closing(Protocol):
    """An object that is closed at the end of a `with` block, also after an error."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources; closing twice is allowed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
