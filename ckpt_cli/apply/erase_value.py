"""Erase values of threads where they are stored, thread by thread, and read them back."""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_backends.changes.remains import Remaining
from ckpt_backends.erasing.stored import RowRewrite
from ckpt_backends.erasing.thread import Rewrite
from ckpt_backends.errors import StoreChanged
from ckpt_backends.protocol import WritableStore
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.parts import PartRewrite
from ckpt_cli.plans.erase_value import EraseValuePlan, ErasingSide, unreadable

_KEPT = "it is part of an id or of a name, and these are kept"


def erase_values_of(side: ErasingSide, writable: WritableStore, plan: EraseValuePlan) -> str:
    """Carry out a plan, in one transaction if the engine has transactions, and read it back.

    Returns why something is left, or `''`. Raises `StoreChanged` if the thread is not as it was
    when it was planned, and `Refused` for a value that cannot be read; nothing is written then.
    """
    before = side.eraser(plan.erasure)
    try:
        number = sum(1 for _ in before.rewrites(side.rows.rows(plan.thread_id)))
        side.rows.refresh()
        if before.digest != plan.digest:
            raise StoreChanged(
                f"thread '{plan.thread_id}' changed meanwhile; nothing was written",
                hint="stop the agent, then run the command again",
            )
        if not number:
            return ""
        _write(side, writable, plan)
        return _problem(side, plan)
    except CannotHold as error:
        raise unreadable(plan.thread_id, error) from error


def _write(side: ErasingSide, writable: WritableStore, plan: EraseValuePlan) -> None:
    """Replace what changes. It is read anew, so that no more than a few rows are in memory."""
    rewrites = _rewrites(side, plan)
    first = next(rewrites)
    if isinstance(first, RowRewrite):
        writable.replace_rows(plan.thread_id, _rows(first, rewrites))
    else:
        writable.rewrite(plan.thread_id, _parts(first, rewrites))


def _rewrites(side: ErasingSide, plan: EraseValuePlan) -> Iterator[Rewrite]:
    yield from side.eraser(plan.erasure).rewrites(side.rows.rows(plan.thread_id))
    # In a file that is not in WAL mode, an open read would block the commit.
    side.rows.refresh()


def _rows(first: RowRewrite, others: Iterator[Rewrite]) -> Iterator[RowRewrite]:
    yield first
    for one in others:
        if isinstance(one, RowRewrite):
            yield one


def _parts(first: PartRewrite, others: Iterator[Rewrite]) -> Iterator[PartRewrite]:
    yield first
    for one in others:
        if isinstance(one, PartRewrite):
            yield one


def _problem(side: ErasingSide, plan: EraseValuePlan) -> str:
    """Read a thread back. Returns why it still has something to erase, or `''`."""
    after = side.eraser(plan.erasure)
    side.rows.refresh()
    left = sum(1 for _ in after.rewrites(side.rows.rows(plan.thread_id)))
    side.rows.refresh()
    if left or after.rows != plan.digest[0]:
        return f"thread '{plan.thread_id}' changed while its values were erased"
    return ""


def kept_places(side: ErasingSide, plan: EraseValuePlan) -> Iterator[Remaining]:
    """Yield the columns that still have what was erased: ids and names, which are kept."""
    found: dict[str, None] = {}
    for row in side.rows.rows(plan.thread_id):
        for name, cell in row.cells.items():
            data = cell.encode("utf-8", "surrogatepass") if isinstance(cell, str) else cell
            if isinstance(data, bytes) and plan.erasure.has_part(data):
                found[f"{row.table}.{name}"] = None
    side.rows.refresh()
    for place in found:
        yield Remaining(place, _KEPT, is_reachable=True)
