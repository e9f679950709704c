"""Put the output into a document."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.bench.declared import Subject
from tests.bench.table import Row, compared, grown

BEGIN, END = "<!-- bench -->", "<!-- end -->"


def report(
    head: Sequence[str], tables: Sequence[tuple[Subject, Sequence[Row]]], *, markdown: bool
) -> str:
    """Return the description of the machine, the table of ratios, and how cost grows."""
    parts = [*(f"- {line}" for line in head)] if markdown else [*head]
    ratios = [row for subject, rows in tables if not subject.grows for row in rows]
    if ratios:
        parts += ["", compared(ratios, markdown=markdown)]
    for subject, rows in tables:
        if subject.grows and rows:
            parts += ["", grown(rows, markdown=markdown)]
    return "\n".join([*parts, ""])


def write(path: Path, text: str) -> None:
    """Write a file; one with the markers keeps all that stands around them."""
    before = path.read_text("utf-8") if path.exists() else ""
    path.write_text(inserted(before, text), encoding="utf-8")


def inserted(document: str, text: str) -> str:
    """Return the document with the text between its markers; without them, only the text."""
    before, found, rest = document.partition(BEGIN)
    if not found:
        return text
    return f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}"
