"""`ckpt threads list --watch`: show the list again and again in the same place."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from itertools import islice

from ckpt_backends.errors import StoreUnavailable, Unsupported, UsageError
from ckpt_backends.protocol import Store
from ckpt_cli.api.store import StoreHandle
from ckpt_cli.diagnostics import no_progress
from ckpt_cli.render.terminal.folding import folded
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.render.terminal.table import Column, Record, table_lines
from ckpt_cli.session import Session
from ckpt_cli.threads.live_store import LiveStore, is_passing

Table = tuple[Sequence[Record], Sequence[Column], str]
"""Rows, columns, and what to say below them."""
_HEADER = 2
"""Lines above the table: the heading, and a blank one."""
_SHARE = 5
"""At most one in so many seconds is spent on reading."""


def watch_threads(session: Session, read: Callable[[StoreHandle], Table], interval: float) -> None:
    """Show a list of threads until the user ends it.

    Raises `UsageError` if stdout is not a terminal, and `Unsupported` if each look would read a
    whole table.
    """
    output = session.output
    if not output.terminal or not output.table or os.environ.get("TERM") == "dumb":
        raise UsageError(
            "--watch needs a terminal and a table", hint="`ckpt tail -o ndjson` prints what changes"
        )
    if session.store.lists_by_scan:
        raise Unsupported(
            "cannot watch this store: each look would read a whole table",
            hint="`ckpt tail --interval 60` looks once a minute",
        )
    live: LiveStore[Store] = LiveStore(
        lambda: session.open_other(session.names.store_url), session.store
    )
    shown, is_first = _Shown(), True
    try:
        with no_progress(), output.redraw() as screen:
            while True:
                began = time.monotonic()
                try:
                    shown.take(read(StoreHandle(live.store, session)))
                    live.store.refresh()
                except StoreUnavailable as error:
                    if is_first or not is_passing(error):
                        raise
                    shown.problem = session.names.without_values(error.message)
                    live.drop()
                is_first = False
                width, height = screen.size
                at = f"{session.now.astimezone(session.zone):%H:%M:%S}"
                heading = f"{at}  every {interval:g} s, q ends"
                screen.draw(output.painted(shown.lines(heading, width, height)))
                took = time.monotonic() - began
                if not screen.wait(max(interval, took * (_SHARE - 1))):
                    return
                session.restart_clock()
    finally:
        live.drop()


class _Shown:
    """What the screen shows: the last table that could be read."""

    def __init__(self) -> None:
        self._table: Table = ((), (), "")
        self.problem: str | None = None

    def take(self, table: Table) -> None:
        self._table = table
        self.problem = None

    def lines(self, heading: str, width: int, height: int) -> list[StyledLine]:
        """Return the lines of a screen; rows that do not fit are left out."""
        rows, columns, below = self._table
        top = line((heading, "dim"))
        if self.problem is not None:
            text = f"  the connection is lost; trying again: {safe_text(self.problem)}"
            top = line((heading, "dim"), (text, "error"))
        table = folded(table_lines(rows, columns, width), width) if rows else ()
        room = max(height - _HEADER, 1)
        found = list(islice(table, room + 1))
        if len(found) > room:
            found[room - 1 :] = [line(("…", "dim"))]
        elif below and len(found) < room:
            found.append(line((safe_text(below), "dim")))
        return [*islice(folded([top], width), 1), line(""), *found][:height]
