"""The descriptions of graphs by which the threads of a store are judged."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ckpt_backends.base import WrappedStore, wrapper_of
from ckpt_backends.errors import StoreUnavailable, UsageError, reason_of
from ckpt_backends.files import read_regular
from ckpt_backends.protocol import Store
from ckpt_cli.core.compat import LARGEST, GraphFile, read_graphs


class GraphPaths(NamedTuple):
    """Files that the probe of `ckpt compat` printed."""

    new: Path
    old: Path | None = None
    """Of the deployed graph; None if it is not known."""


class StoreWithGraphs(WrappedStore):
    """A store of which the user told which graph is to be deployed."""

    def __init__(self, inner: Store, paths: GraphPaths) -> None:
        super().__init__(inner)
        self._paths = paths

    @cached_property
    def graphs(self) -> tuple[GraphFile, GraphFile | None]:
        """The new and the old graphs. Raises `UsageError`."""
        new, old = self._paths
        return graphs_in(new), None if old is None else graphs_in(old)


def graphs_of(store: Store) -> tuple[GraphFile, GraphFile | None]:
    """Return the new and the old graphs that were told. Raises `UsageError` if none were."""
    found = wrapper_of(store, StoreWithGraphs)
    if found is None:
        raise UsageError(
            "which graph is to be deployed is not told",
            hint="use --compat NEW.json of `threads list`, or compat in a profile:"
            " `ckpt compat --help` says how to make it",
        )
    return found.graphs


def graphs_in(path: Path) -> GraphFile:
    """Return the graphs in a file that the probe of `compat` printed. Raises `UsageError`."""
    return read_graphs(bytes_of(path, LARGEST + 1), str(path))


def bytes_of(path: Path, most: int) -> bytes:
    """Return the first bytes of a file that the user named. Raises `UsageError`."""
    try:
        return read_regular(path, most)
    except StoreUnavailable as error:
        raise UsageError(error.message, hint=error.hint) from None
    except OSError as error:
        raise UsageError(f"cannot read '{path}': {reason_of(error)}") from error
