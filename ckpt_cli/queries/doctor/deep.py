"""Faults that show only if every value of a thread is decoded, and every step replayed."""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_cli.core.doctor.finding import Checked, Finding
from ckpt_cli.queries.doctor.terms import Terms
from ckpt_cli.threads.thread import ThreadReader


def deep_findings(reader: ThreadReader, terms: Terms, checked: Checked) -> Iterator[Finding]:
    """Yield what is wrong with the bodies, values and writes of all checkpoints of a thread."""
    yield from ()
