"""Declares MySQL and MariaDB databases with the tables of langgraph-checkpoint-mysql."""

from ckpt_backends.declaration import NUMBER, SAVER, Backend
from ckpt_backends.model import Capability
from ckpt_backends.transfer.form import Form, Language, Place

_FULL = Form(
    values=Place.APART_BUT_PLAIN, body_types=("json",), encrypts_body=False, parses_json=True
)
_SHALLOW = Capability.WRITES | Capability.TASK_PATH

BACKEND = Backend(
    title="MySQL",
    layouts={
        "mysql": SAVER | Capability.ENFORCED_READ_ONLY,
        "mysql-shallow": _SHALLOW | Capability.ENFORCED_READ_ONLY,
    },
    schemes=("mysql", "mariadb"),
    driver="pymysql",
    extra="mysql",
    params={
        "ssl_mode": "[a-zA-Z_]{0,16}",
        **dict.fromkeys(("connect_timeout", "read_timeout"), NUMBER),
    },
    engine_faults=(
        *("rows-hidden", "saver-limit"),
        *("index-missing", "schema-old", "index-stale", "space-free"),
    ),
    mended_faults=("saver-limit", "index-missing", "schema-old", "index-stale", "space-free"),
    impossible_faults={"branches-share-value": "versions are unique"},
    forms={
        "mysql": (_FULL,),
        "mysql-shallow": (_FULL._replace(values=Place.APART, receives=False),),
    },
    records="ckpt_backends.sql.records:records_of",
    edits="ckpt_backends.sql.records:edited_row",
    creates={Language.PYTHON: "mysql"},
    create="ckpt_backends.mysql.write:create_store",
    checkpoints="ckpt_backends.mysql.store:open_store",
    changes="ckpt_backends.mysql.write:open_writable",
)
