"""The official MySQL saver with what it reads wrongly put right."""

from __future__ import annotations

from copy import copy
from typing import Any

_END_OF_PATH = "\x1f"
_THREAD = "thread_id = %(thread_id)s"


def _in_order(query: str) -> str:
    """The query with each task's id behind its path, by which the saver then puts the writes."""
    return query.replace(
        "json_arrayagg(json_array(\n            cw.task_id,",
        f"json_arrayagg(json_array(concat(cw.task_path, '{_END_OF_PATH}', cw.task_id),",
    )


def exactly(saver: Any) -> Any:
    """The saver takes threads for one whose ids differ in case, where the server does, and gives
    writes by task id, so that those of tasks that ran side by side reach a DeltaChannel in the
    order of the tasks' ids."""

    class Exactly(type(saver)):  # type: ignore[misc]
        SELECT_SQL = _in_order(getattr(saver, "SELECT_SQL", ""))

        @staticmethod
        def _select_sql(where: str) -> str:
            exact = where.replace(_THREAD, f"{_THREAD} AND BINARY {_THREAD}")
            return _in_order(type(saver)._select_sql(exact))

        def _load_writes(self, writes: Any) -> Any:
            return [
                (task.partition(_END_OF_PATH)[2], channel, value)
                for task, channel, value in super()._load_writes(writes)
            ]

    found = copy(saver)
    found.__class__ = Exactly
    return found
