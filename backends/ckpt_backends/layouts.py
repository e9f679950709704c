"""The layouts that are known here, and what each can promise. Importing this imports no driver.

Of a store whose saver is older or unknown, `Store.describe` may promise less.
"""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_backends.model import Capability as C

_SAVER = C.HISTORY | C.WRITES | C.TASK_PATH | C.ADDING
"""What savers of LangGraph keep, but for those that keep the newest checkpoint only."""

LAYOUTS: Mapping[str, C] = {
    "sqlite": _SAVER | C.INLINE_VALUES | C.ENFORCED_READ_ONLY,
    "postgres": _SAVER | C.ENFORCED_READ_ONLY,
    "postgres-shallow": C.WRITES | C.TASK_PATH | C.ENFORCED_READ_ONLY,
    "mysql": _SAVER | C.ENFORCED_READ_ONLY,
    "mysql-shallow": C.WRITES | C.TASK_PATH | C.ENFORCED_READ_ONLY,
    "langgraph-dev": _SAVER,
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
"""By name, as `ckpt stores` says it."""
