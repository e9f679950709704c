"""LangGraph checkpoints in DuckDB files: a saver, and the adapter for `ckpt`."""
