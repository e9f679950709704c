"""Declares MySQL and MariaDB databases with the tables of langgraph-checkpoint-mysql."""

from ckpt_backends.declaration import NUMBER, SAVER, Backend
from ckpt_backends.model import Capability

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
    engine_faults=("index-missing", "schema-old", "index-stale", "space-free"),
    impossible_faults={"branches-share-value": "versions are unique"},
    checkpoints="ckpt_backends.mysql.opening:open_store",
    changes="ckpt_backends.mysql.opening:open_writable",
)
