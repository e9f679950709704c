"""The condition for documents of threads within bounds."""

from __future__ import annotations

from typing import Any

from ckpt_backends.mongodb.engine.fields import storable, stored_forms
from ckpt_backends.mongodb.engine.pipelines import of_threads
from ckpt_backends.thread_bounds import ThreadBounds, end_of_prefix

_IDS = 10_000
"""Maximum number of ids in a query, of which each may be stored in two forms."""


def keys_within(bounds: ThreadBounds) -> dict[str, Any]:
    """The condition that the thread ids may be within bounds; empty if they do not tell."""
    if bounds.ids is not None and len(bounds.ids) <= _IDS:
        return of_threads([form for one in sorted(bounds.ids) for form in stored_forms(one)])
    end = end_of_prefix(bounds.prefix)
    if end is None or not storable(bounds.prefix):
        return {}
    texts = {"thread_id": {"$gte": bounds.prefix, "$lt": end}}
    # Old savers store numeric ids as numbers.
    return {"$or": [texts, {"thread_id": {"$not": {"$type": "string"}}}]}
