"""Opens LangGraph's PostgreSQL tables: `checkpoints`, `checkpoint_blobs`, `checkpoint_writes`."""
