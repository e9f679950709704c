"""Watch how far a long answer has come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from ckpt_cli.threads.executor.executor import Executor

_Item = TypeVar("_Item")


class Watcher(Protocol):
    """Yields the items it is given, and shows how many there were; `tqdm.tqdm` is one."""

    def __call__(self, items: Iterable[_Item], /) -> Iterable[_Item]:
        """Return the same items."""


def unwatched(items: Iterable[_Item], /) -> Iterable[_Item]:
    """Return the items without showing anything."""
    return items


def watchers(executor: Executor, where: object, watch: Watcher) -> tuple[Watcher, Watcher]:
    """Return what watches the choice of threads, and what watches the answers about them.

    A filter may look at many more threads than it chooses. If other processes work on the threads,
    these are chosen ahead, so only the answers tell how far the work is.
    """
    return (watch, unwatched) if where and executor.is_here else (unwatched, watch)
