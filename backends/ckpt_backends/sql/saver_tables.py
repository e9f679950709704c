"""The tables of LangGraph's savers, as far as changes need to know them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


def by_name(ns: str) -> Mapping[str, object]:
    """The cells with which most savers find the rows of a namespace."""
    return {"checkpoint_ns": ns}


@dataclass(frozen=True, slots=True)
class SaverTables:
    """The tables of a saver as found in one database."""

    names: Mapping[str, str]
    """By table, its quoted name with schema."""
    columns: Mapping[str, Sequence[str]]
    """By table, the columns that can be written."""
    checkpoints: str
    writes: str
    blobs: str = ""
    """The table of channel values; empty if the checkpoints contain them."""
    own_id: str = "checkpoint_id"
    """The expression for the id of a row of `checkpoints`."""
    keeps_history: bool = True
    """Whether it keeps more than the newest checkpoint."""
    namespace: Callable[[str], Mapping[str, object]] = by_name
    """The cells with which the rows of a namespace are found."""
