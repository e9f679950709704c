"""Faults in the keys of one thread: no body and no value is read."""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_backends.protocol import Store
from ckpt_cli.core.doctor.finding import Checked, Finding
from ckpt_cli.queries.doctor.terms import Terms


def key_findings(store: Store, thread_id: str, terms: Terms, checked: Checked) -> Iterator[Finding]:
    """Yield what is wrong with the keys of a thread, which may have writes only.

    Counts the checkpoints and writes that it looks at.
    """
    yield from ()
