"""The layout of SupabaseSaver: two tables in PostgreSQL, which the saver reaches through PostgREST.

    langgraph_checkpoints(thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id,
                          checkpoint, metadata, created_at)
    langgraph_checkpoint_writes(thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx,
                                channel, write, created_at)

The tables are those of `sql/schema.sql` of langgraph-checkpoint-supabase 0.1.0, the rows those of
its `_shared.py`. Differences from LangGraph's savers:

* a checkpoint, with all of its values, and the value of a write are JSON: `{"type": ..., "data":
  ...}`, where `data` is base64 text; metadata are plain JSON;
* `created_at` is set by the server.
"""
