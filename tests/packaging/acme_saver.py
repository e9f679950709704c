"""The saver of docs/develop/adapters.md: a SQLite file with the tables `states` and `results`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Self

from langgraph.checkpoint.sqlite import SqliteSaver

_SETUP = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = OFF;
CREATE TABLE IF NOT EXISTS states (
    thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, parent_id TEXT,
    type TEXT, body BLOB, metadata TEXT,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
CREATE TABLE IF NOT EXISTS results (
    thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, task_id TEXT, task_path TEXT,
    idx INTEGER, channel TEXT, type TEXT, value BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
CREATE TEMP VIEW checkpoints AS
    SELECT thread_id, checkpoint_ns, checkpoint_id, parent_id AS parent_checkpoint_id,
           type, body AS checkpoint, metadata
    FROM states;
CREATE TEMP VIEW writes AS SELECT * FROM results;
CREATE TEMP TRIGGER put INSTEAD OF INSERT ON checkpoints BEGIN
    INSERT INTO states VALUES (
        NEW.thread_id, NEW.checkpoint_ns, NEW.checkpoint_id, NEW.parent_checkpoint_id,
        NEW.type, NEW.checkpoint, CAST(NEW.metadata AS TEXT));
END;
CREATE TEMP TRIGGER put_writes INSTEAD OF INSERT ON writes BEGIN
    INSERT INTO results VALUES (
        NEW.thread_id, NEW.checkpoint_ns, NEW.checkpoint_id, NEW.task_id, NEW.task_path,
        NEW.idx, NEW.channel, NEW.type, NEW.value);
END;
"""


class AcmeSaver(SqliteSaver):
    """LangGraph's own saver, to which these tables look as its own do."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        connection.executescript(_SETUP)
        self.is_setup = True

    @classmethod
    @contextmanager
    def from_path(cls, path: str) -> Iterator[Self]:
        with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
            yield cls(connection)

    def delete_thread(self, thread_id: Any) -> None:
        with self.cursor() as cursor:
            for table in ("states", "results"):
                cursor.execute(f"DELETE FROM {table} WHERE thread_id = ?", [thread_id])
