"""Three tables keyed by a hash: checkpoints as places only, their values, and what made them.

    checkpoints(thread_id, checkpoint_id, parent_checkpoint_id, checkpoint_ns, checkpoint_ns_hash,
                gmt_create, gmt_modified)
    checkpoint_writes(thread_id, checkpoint_id, checkpoint_ns_hash, task_id, idx, channel, type,
                      blob_data, task_path, gmt_create)
    checkpoint_blobs(thread_id, checkpoint_ns_hash, channel, version, type, blob_data)

Savers of applications write it, on SQLite, PostgreSQL, MySQL and MariaDB; none of them is public.
Whoever has a connection hands it in as a `Database`. Unlike in LangGraph's own layouts

* a checkpoint has no body: neither metadata nor versions nor what nodes have seen;
* a write belongs to the checkpoint that it went into, and its task id is the node's name;
* ids are any text, and `gmt_create` (UTC) orders them;
* one channel may have several versions at one checkpoint, which are merged when they are read.

There are two kinds of hash, recognised for each checkpoint (`index`): a key of the checkpoint,
which then has its own values (`three-table`), or the MD5 of the namespace, so that all checkpoints
share the values of the newest one (`three-table-latest`).
"""
