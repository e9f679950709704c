"""`ckpt`: inspects, verifies and rolls back LangGraph checkpoints."""

__version__ = "0.1.0"


class ReaderGone(Exception):
    """The reader of stdout closed it. Not an `OSError`, as reading may raise."""
