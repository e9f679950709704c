"""The tables that the benchmark prints, as columns or as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.bench.measure import Runs

_HEAD = ("ratio", "of CPU", "budget", "met", "what", "on", "ckpt", "beside", "memory")
_WITHIN = {True: "yes", False: "NO", None: ""}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    what: str
    engine: str
    ours: str = ""
    ratio: str = ""
    cpu: str = ""
    beside: str = ""
    budget: str = ""
    within: bool | None = None
    memory: str = ""
    least: float = 0.0
    """Seconds."""

    @property
    def cells(self) -> Sequence[str]:
        return (
            *(self.ratio, self.cpu, self.budget, _WITHIN[self.within]),
            *(self.what, self.engine, self.ours, self.beside, self.memory),
        )


def compared(rows: Iterable[Row], *, markdown: bool) -> str:
    """Return a line for each row, ratios first."""
    return _laid_out([_HEAD, *(row.cells for row in rows)], markdown=markdown)


def grown(rows: Iterable[Row], *, markdown: bool) -> str:
    """Return a line for each command, with a column for each store: seconds, and memory."""
    found: dict[str, dict[str, str]] = {}
    stores: list[str] = []
    for row in rows:
        if row.engine not in stores:
            stores.append(row.engine)
        found.setdefault(row.what, {})[row.engine] = f"{row.ours.split(' / ')[0]}, {row.memory}"
    lines = [(what, *(cells.get(one, "") for one in stores)) for what, cells in found.items()]
    return _laid_out([("what", *stores), *lines], markdown=markdown)


def times(ratio: float) -> str:
    """Return a ratio: `1.5 x`, or `1/300` where the other takes far longer."""
    if 0 < ratio < 0.1:
        return f"1/{1 / ratio:.0f}"
    return f"{ratio:.2f} x" if ratio < 10 else f"{ratio:.0f} x"


def seconds_of(runs: Runs) -> str:
    """Return the least and the median, as `120 ms / 131 ms`."""
    if runs.stopped:
        return f"> {runs.median:.0f} s, stopped"
    if len(runs.runs) == 1:
        return f"{short(runs.least)}"
    return f"{short(runs.least)} / {short(runs.median)}"


def short(seconds: float) -> str:
    """Return `120 ms` or `1.20 s`."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def _laid_out(rows: Sequence[Sequence[str]], *, markdown: bool) -> str:
    if markdown:
        head, *rest = [f"| {' | '.join(row)} |" for row in rows]
        return "\n".join([head, "|" + "---|" * len(rows[0]), *rest])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
