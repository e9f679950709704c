"""The official MySQL saver, with its reading faults corrected."""

from __future__ import annotations

from copy import copy
from typing import Any

_END_OF_PATH = "\x1f"
_THREAD = "thread_id = %(thread_id)s"


_REPLACED = {
    # With the path before the task id, writes are sorted as LangGraph applies them.
    "json_arrayagg(json_array(\n            cw.task_id,": (
        f"json_arrayagg(json_array(concat(cw.task_path, '{_END_OF_PATH}', cw.task_id),"
    ),
    # MariaDB does not find a key by a path with escapes, which are used for all non-ASCII names.
    """json_extract(checkpoint, concat('$.channel_versions.', '"', channel, '"'))""": (
        "json_extract(json_extract(checkpoint, '$.channel_versions.*'), concat('$[', nth - 1, ']'))"
    ),
    "'$[*]' columns (channel ": "'$[*]' columns (nth FOR ORDINALITY, channel ",
}


def _put_right(query: str) -> str:
    for text, other in _REPLACED.items():
        query = query.replace(text, other)
    return query


def exactly(saver: Any) -> Any:
    """Return the saver with its reading faults corrected.

    The official saver does not distinguish thread ids that differ in case, if the server does not.
    It returns writes by task id, so that writes of parallel tasks reach a DeltaChannel in the order
    of the task ids. On MariaDB it returns no values of channels with non-ASCII names.
    """

    class Exactly(type(saver)):  # type: ignore[misc]
        SELECT_SQL = _put_right(getattr(saver, "SELECT_SQL", ""))

        @staticmethod
        def _select_sql(where: str) -> str:
            exact = where.replace(_THREAD, f"{_THREAD} AND BINARY {_THREAD}")
            return _put_right(type(saver)._select_sql(exact))

        def _load_writes(self, writes: Any) -> Any:
            return [
                (task.partition(_END_OF_PATH)[2], channel, value)
                for task, channel, value in super()._load_writes(writes)
            ]

    found = copy(saver)
    found.__class__ = Exactly
    return found
