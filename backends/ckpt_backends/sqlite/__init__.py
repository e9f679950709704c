"""Opens SQLite files with LangGraph's tables `checkpoints` and `writes`, or with three tables."""
