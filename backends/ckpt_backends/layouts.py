"""All known layouts with their capabilities. Importing this module imports no driver.

`Store.describe` may list fewer capabilities for a store of an old or unknown saver.
"""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_backends.model import Capability as C

_SAVER = C.HISTORY | C.WRITES | C.TASK_PATH | C.ADDING
"""What LangGraph's savers store, except those that keep only the newest checkpoint."""

_THREE_TABLE = C.HISTORY | C.WRITES | C.BARE | C.ENFORCED_READ_ONLY

LAYOUTS: Mapping[str, C] = {
    "sqlite": _SAVER | C.INLINE_VALUES | C.ENFORCED_READ_ONLY,
    "postgres": _SAVER | C.ENFORCED_READ_ONLY,
    "postgres-shallow": C.WRITES | C.TASK_PATH | C.ENFORCED_READ_ONLY,
    "mysql": _SAVER | C.ENFORCED_READ_ONLY,
    "mysql-shallow": C.WRITES | C.TASK_PATH | C.ENFORCED_READ_ONLY,
    "langgraph-dev": _SAVER,
    "three-table": _THREE_TABLE | C.ADDING,
    "three-table-latest": _THREE_TABLE | C.LATEST_VALUES,
    "mongodb": _SAVER | C.INLINE_VALUES,
    "mongodb-js": C.HISTORY | C.WRITES | C.ADDING | C.INLINE_VALUES,
    "kaflow": C.HISTORY | C.ADDING | C.INLINE_VALUES,
    "redis": _SAVER | C.INLINE_VALUES | C.SESSIONS,
    "redis-shallow": C.WRITES | C.TASK_PATH | C.INLINE_VALUES | C.SESSIONS,
    "redis-js": C.HISTORY | C.WRITES | C.ADDING | C.SESSIONS,
    "redis-js-shallow": C.WRITES | C.INLINE_VALUES | C.SESSIONS,
    "redis-hash": C.HISTORY | C.WRITES | C.ADDING | C.INLINE_VALUES | C.SESSIONS,
    "redis-hash-colon": C.HISTORY | C.WRITES | C.ADDING | C.INLINE_VALUES | C.SESSIONS,
    "redis-plain": C.HISTORY | C.WRITES | C.ADDING | C.SESSIONS,
}
"""By name, as `ckpt stores` prints it."""
