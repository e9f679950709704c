"""Find out whether LangGraph for Python or LangGraph.js wrote a store."""

from __future__ import annotations

from ckpt_backends.codec import decode_checkpoint
from ckpt_backends.protocol import Store
from ckpt_backends.transfer.form import Language
from ckpt_backends.transfer.parts import CheckpointPart
from ckpt_cli.core.state import read_body


def language_of(store: Store, thread_id: str | None = None) -> Language | None:
    """Return the language of a thread, by default of the newest; None if there is no checkpoint."""
    named = [] if thread_id is None else [store.thread(thread_id)]
    for thread in store.threads(limit=1) if thread_id is None else filter(None, named):
        wanted = None if thread.head is None else [thread.head]
        for found in store.checkpoints(thread.thread_id, checkpoint_ids=wanted, body=True):
            return Language.JAVASCRIPT if read_body(found).is_javascript else Language.PYTHON
    return None


def language_of_part(part: CheckpointPart) -> Language:
    """Return which of them wrote a checkpoint, by the form of its time."""
    body = decode_checkpoint(part.body)
    ts = body.get("ts") if isinstance(body, dict) else None
    is_javascript = isinstance(ts, str) and ts.endswith("Z")
    return Language.JAVASCRIPT if is_javascript else Language.PYTHON
