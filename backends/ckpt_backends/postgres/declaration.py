"""Declares PostgreSQL databases with the tables of LangGraph's savers, Python or JavaScript."""

from ckpt_backends.declaration import NAME, NUMBER, SAVER, WORD, Backend
from ckpt_backends.model import Capability
from ckpt_backends.transfer.form import Form, Language, Place, Serializer

_FULL = Form(
    values=Place.APART_BUT_PLAIN, body_types=("json",), encrypts_body=False, parses_json=True
)
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
        **dict.fromkeys(("schema", "tables", "host", "hostaddr", "user", "dbname"), NAME),
        **dict.fromkeys(("sslmode", "target_session_attrs"), WORD),
        **dict.fromkeys(("port", "connect_timeout", "read_timeout"), NUMBER),
    },
    engine_faults=(
        *("postgres:value-replaced", "rows-hidden"),
        *("index-missing", "schema-old", "space-free"),
    ),
    mended_faults=("index-missing", "schema-old", "space-free"),
    forms={
        "postgres": (
            _FULL,
            Form(
                language=Language.JAVASCRIPT,
                serializer=Serializer.JAVASCRIPT,
                values=Place.APART,
                body_types=("json",),
                marks_absent=True,
                encrypts_body=False,
                parses_json=True,
            ),
        ),
        "postgres-shallow": (_FULL._replace(values=Place.APART, receives=False),),
    },
    records="ckpt_backends.sql.records:records_of",
    edits="ckpt_backends.sql.records:edited_row",
    creates=dict.fromkeys(Language, "postgres"),
    create="ckpt_backends.postgres.write:create_store",
    checkpoints="ckpt_backends.postgres.store:open_store",
    changes="ckpt_backends.postgres.write:open_writable",
    memory="ckpt_backends.postgres.memory:open_memory",
    memory_changes="ckpt_backends.postgres.memory:open_writable_memory",
    memory_create="ckpt_backends.postgres.write:create_memory",
)
