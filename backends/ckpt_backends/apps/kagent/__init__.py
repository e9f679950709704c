"""The layout of kagent's LangGraph checkpointer in PostgreSQL.

    lg_checkpoint(user_id, thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id,
                  metadata, checkpoint, checkpoint_type, version,
                  created_at, updated_at, deleted_at)
    lg_checkpoint_write(user_id, thread_id, checkpoint_ns, checkpoint_id, write_idx, task_id,
                        channel, value, value_type, created_at, updated_at, deleted_at)

`KAgentCheckpointer` (kagent-langgraph 0.10.4, `kagent/langgraph/_checkpointer.py`) sends them over
HTTP to kagent's service, which stores them (kagent 0.9.12, `go/core/internal/database`:
`client_postgres.go` and `queries/langgraph.sql`; the tables are made by
`go/core/pkg/migrations/core/000001_initial.up.sql`). Differences from LangGraph's savers:

* a checkpoint, its metadata (JSON) and the value of a write are base64 text; all values are in the
  checkpoint, whose format `v` is `version`, too;
* the key of all rows begins with the user, `admin@kagent.dev` unless the config names one;
* rows with `deleted_at` do not exist for the service, which only marks threads as deleted; its job
  for expired sessions removes rows;
* the key of a write has no task: of two tasks that write with the same `write_idx`, the later one
  replaces the earlier one. The saver reads all writes of a checkpoint as those of one task, that
  with the greatest id. `ckpt` shows each with the task that is stored with it;
* no task paths are stored.
"""
