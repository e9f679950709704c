"""Metadata keys of checkpoints that `ckpt` added, which other modules find them by."""

BY = "forked_by"
"""Metadata key that marks a checkpoint that `ckpt` added."""
FROM = "forked_from"
"""Metadata key: the id of the copied checkpoint."""
WITH = "forked_with"
"""Metadata key in a subgraph's namespace: the root checkpoint that was added with this one."""
WRITES = "forked_writes"
"""Metadata key: the number of writes that were added with it."""
THREAD = "forked_from_thread"
"""Metadata key: the thread that this thread was copied from."""
CHECKPOINTS = "forked_checkpoints"
"""Metadata key: the number of checkpoints that were copied with it."""
REASON = "reason"
NAME = "ckpt"
MARKS = frozenset({BY, FROM, WITH, WRITES, THREAD, CHECKPOINTS})
MARKS = frozenset({BY, FROM, WITH, WRITES, THREAD, CHECKPOINTS})
