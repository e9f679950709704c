"""Faults that show at the root head of a thread."""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_cli.core.doctor.finding import Checked, Finding
from ckpt_cli.queries.doctor.terms import Terms
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.thread import ThreadReader


def head_findings(
    reader: ThreadReader, head: Moment, terms: Terms, checked: Checked
) -> Iterator[Finding]:
    """Yield what is wrong with the head of a thread.

    `head` may have been read without the values that its layout stores apart.
    """
    yield from ()
