"""`ckpt`: inspects, verifies and rolls back LangGraph checkpoints."""

__version__ = "0.1.0"


class ReaderGone(Exception):
    """The reader of stdout closed it. Not an OSError, which the parser would turn into exit code 1."""
