CREATE TABLE IF NOT EXISTS checkpoints (
    thread_id VARCHAR,
    checkpoint_ns VARCHAR,
    checkpoint_id VARCHAR,
    parent_checkpoint_id VARCHAR,
    type VARCHAR NOT NULL,
    checkpoint BLOB NOT NULL,
    metadata VARCHAR NOT NULL,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
);
CREATE TABLE IF NOT EXISTS writes (
    thread_id VARCHAR,
    checkpoint_ns VARCHAR,
    checkpoint_id VARCHAR,
    task_id VARCHAR,
    task_path VARCHAR NOT NULL,
    idx INTEGER,
    channel VARCHAR NOT NULL,
    type VARCHAR NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
);
