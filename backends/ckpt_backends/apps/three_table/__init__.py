"""The three-table layout: checkpoints without bodies, their values by a hash, and their writes.

    checkpoints(thread_id, checkpoint_id, parent_checkpoint_id, checkpoint_ns, checkpoint_ns_hash,
                gmt_create, gmt_modified)
    checkpoint_writes(thread_id, checkpoint_id, checkpoint_ns_hash, task_id, idx, channel, type,
                      blob_data, task_path, gmt_create)
    checkpoint_blobs(thread_id, checkpoint_ns_hash, channel, version, type, blob_data)

Some applications write it with private savers on various SQL engines. Each
engine's adapter passes its connection as a `Database`. Differences from LangGraph's savers:

* a checkpoint has no body: no metadata, no channel versions, no `versions_seen`;
* a write is stored with the checkpoint that it produced, and its task id is the node's name;
* an id can be any text; `gmt_create` (UTC) orders the checkpoints;
* a channel may have several rows at one checkpoint; they are merged when they are read.

The column `checkpoint_ns_hash` has one of two meanings, recognised for each checkpoint (`index`):

* `three-table`: a unique key of the checkpoint, so each checkpoint has separate values;
* `three-table-latest`: the MD5 of the namespace, so only the values of the newest checkpoint exist.
"""
