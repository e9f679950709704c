"""`ckpt`: reads LangGraph checkpoint stores, on the command line."""

__version__ = "0.1.0"


class ReaderGone(Exception):
    """Who read the answer has seen enough. Not an OSError, which the parser would turn into 1."""
