"""Opens the tables of langgraph-checkpoint-mysql, on MySQL and MariaDB.

They are `checkpoints`, `checkpoint_blobs` and `checkpoint_writes`.
"""
