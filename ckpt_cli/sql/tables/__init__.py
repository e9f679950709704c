"""The tables of `ckpt sql` and `ckpt export --format`: one module declares one table."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_cli.sql.tables.checkpoints import CHECKPOINTS
from ckpt_cli.sql.tables.errors import ERRORS
from ckpt_cli.sql.tables.interrupts import INTERRUPTS
from ckpt_cli.sql.tables.memory import MEMORY
from ckpt_cli.sql.tables.messages import MESSAGES
from ckpt_cli.sql.tables.table import QueryTable
from ckpt_cli.sql.tables.tasks import TASKS
from ckpt_cli.sql.tables.threads import THREADS
from ckpt_cli.sql.tables.usage import USAGE
from ckpt_cli.sql.tables.values import VALUES
from ckpt_cli.sql.tables.writes import WRITES

TABLES: Mapping[str, QueryTable] = {
    table.name: table
    for table in (
        THREADS,
        CHECKPOINTS,
        TASKS,
        WRITES,
        VALUES,
        MESSAGES,
        INTERRUPTS,
        ERRORS,
        USAGE,
        MEMORY,
    )
}
