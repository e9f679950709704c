"""Declares PostgreSQL databases with the tables of LangGraph's savers, Python or JavaScript."""

from ckpt_backends.declaration import NAME, NUMBER, SAVER, WORD, Backend
from ckpt_backends.model import Capability

_SHALLOW = Capability.WRITES | Capability.TASK_PATH

BACKEND = Backend(
    title="PostgreSQL",
    layouts={
        "postgres": SAVER | Capability.ENFORCED_READ_ONLY,
        "postgres-shallow": _SHALLOW | Capability.ENFORCED_READ_ONLY,
    },
    schemes=("postgresql", "postgres"),
    driver="psycopg",
    extra="postgres",
    params={
        **dict.fromkeys(("schema", "host", "hostaddr", "user", "dbname"), NAME),
        **dict.fromkeys(("sslmode", "target_session_attrs"), WORD),
        **dict.fromkeys(("port", "connect_timeout", "read_timeout"), NUMBER),
    },
    engine_faults=("index-missing", "schema-old", "space-free"),
    checkpoints="ckpt_backends.postgres.opening:open_store",
    changes="ckpt_backends.postgres.opening:open_writable",
    memory="ckpt_backends.postgres.opening:open_memory",
    memory_changes="ckpt_backends.postgres.opening:open_writable_memory",
)
