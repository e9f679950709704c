"""Opens the store that a plan changes, and applies a change; refuses a private copy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from ckpt_backends.changes.change import Change
from ckpt_backends.errors import Refused, UsageError, only_read
from ckpt_backends.model import Capability
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.url import StoreUrl
from ckpt_cli.core.forking.sealed_change import sealed_change


def refuse_copy(url: StoreUrl) -> None:
    """Raise `UsageError` if a private copy of the store is read, which cannot be changed."""
    if url.params.get("copy") in {"1", "true"}:
        raise UsageError(
            "cannot change a private copy: --copy is read-only",
            hint="run the command without --copy, or with --dry-run",
        )


def check_removable(store: Store) -> None:
    """Raise `Unsupported` if nothing is changed in this layout, and `Refused` if rows of the store
    may be hidden from this user.

    What is removed might belong to a checkpoint that is there, and more might be left than is said.
    """
    if Capability.READ_ONLY in store.capabilities:
        raise only_read(store.describe().url)
    for one in store.hidden_rows():
        raise Refused(
            f"nothing may be removed where rows may be hidden: {one.reason}", hint=one.remedy
        )


@contextmanager
def writable_store(url: StoreUrl, readers: Iterable[Store] = ()) -> Iterator[WritableStore]:
    """Open a store for writing. Raises what `open_writable` raises, and `UsageError` for a copy.

    `readers` are the open readers of the same store.
    """
    refuse_copy(url)
    # A reader of a file that is not in WAL mode would block its own writer.
    for reader in readers:
        reader.refresh()
    with open_writable(url) as writable:
        yield writable


def _no_keys() -> Sequence[bytes]:
    """Return none: plans seal their changes, and what they left unsealed is refused."""
    return ()


def apply_change(url: StoreUrl, change: Change, readers: Iterable[Store] = ()) -> str:
    """Apply a change in one transaction. Raises what `WritableStore.apply` raises.

    Raises `Unsupported` if a value is still to be encrypted. Returns a note about removed data that
    could not be erased, or `''`.
    """
    change = sealed_change(change, _no_keys)
    with writable_store(url, readers) as writable:
        writable.apply(change)
        return writable.finish_removal() if change.removed else ""


@contextmanager
def applying(url: StoreUrl, readers: Sequence[Store]) -> Iterator[Callable[[Change], None]]:
    """Return a function that applies a change in one transaction, for many changes.

    The function raises what `apply_change` raises. The readers may be used between changes.
    """
    with writable_store(url, readers) as writable:

        def apply(change: Change) -> None:
            for reader in readers:
                reader.refresh()
            writable.apply(sealed_change(change, _no_keys))

        yield apply
