"""`ckpt`: reads LangGraph checkpoint stores, on the command line."""

__version__ = "0.1.0"
