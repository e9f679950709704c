"""Tables of LangGraph's savers."""

CHECKPOINTS, BLOBS, WRITES = "checkpoints", "checkpoint_blobs", "checkpoint_writes"
TABLES = (CHECKPOINTS, BLOBS, WRITES)
HOLDS = {CHECKPOINTS: "checkpoints", BLOBS: "blobs", WRITES: "writes"}
"""What each table holds, in the words of `Count.add`."""
