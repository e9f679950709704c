"""Find out whether LangGraph for Python or LangGraph.js wrote a store."""

from __future__ import annotations

from ckpt_backends.codec import decode_checkpoint
from ckpt_backends.errors import Unsupported
from ckpt_backends.protocol import Store
from ckpt_backends.transfer.form import Language
from ckpt_backends.transfer.parts import CheckpointPart
from ckpt_backends.transfer.routes import languages_of
from ckpt_cli.core.state import read_body


def language_of(store: Store) -> Language | None:
    """Return the language of the newest thread; None if the store has no checkpoint."""
    for thread in store.threads(limit=1):
        wanted = None if thread.head is None else [thread.head]
        for found in store.checkpoints(thread.thread_id, checkpoint_ids=wanted, body=True):
            return Language.JAVASCRIPT if read_body(found).is_javascript else Language.PYTHON
    return None


def language_of_thread(store: Store, layout: str, thread_id: str) -> Language | None:
    """Return the language of a thread; None if its layout has no form for copies.

    Reads a checkpoint only if the layout may be that of either language.
    """
    try:
        known = languages_of(layout)
    except Unsupported:
        return None  # a layout that its backend does not declare
    if len(known) < 2:
        return known[0] if known else None
    for found in store.checkpoints(thread_id, body=True):
        return Language.JAVASCRIPT if read_body(found).is_javascript else Language.PYTHON
    return None


def language_of_part(part: CheckpointPart) -> Language:
    """Return which of them wrote a checkpoint, by the form of its time."""
    body = decode_checkpoint(part.body)
    ts = body.get("ts") if isinstance(body, dict) else None
    is_javascript = isinstance(ts, str) and ts.endswith("Z")
    return Language.JAVASCRIPT if is_javascript else Language.PYTHON
