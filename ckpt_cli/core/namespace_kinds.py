"""What the namespaces of all calls of a subgraph have in common."""

from __future__ import annotations


def namespace_kind(checkpoint_ns: str) -> str:
    """Return a namespace without task ids: the same text for all calls of a subgraph."""
    parts = [part.partition(":")[0] for part in checkpoint_ns.split("|") if not part.isdigit()]
    return "|".join(parts)
