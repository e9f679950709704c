"""How rows are changed by their drivers, in a layout of each kind that the doctor reads."""

from typing import Any

from tests.kit.planting.base import Planter
from tests.kit.planting.dev import DevPlanter
from tests.kit.planting.documents import JavaScriptDocumentPlanter, KaflowPlanter, MongoPlanter
from tests.kit.planting.redis import RedisPlanter
from tests.kit.planting.sql import MySQLPlanter, PostgresPlanter, SqlitePlanter
from tests.kit.planting.three_table import ThreeTablePlanter

PLANTERS: dict[str, type[Planter[Any]]] = {
    "sqlite": SqlitePlanter,
    "postgres": PostgresPlanter,
    "mysql": MySQLPlanter,
    "mongodb": MongoPlanter,
    "mongodb-js": JavaScriptDocumentPlanter,
    "kaflow": KaflowPlanter,
    "redis": RedisPlanter,
    "langgraph-dev": DevPlanter,
    "three-table": ThreeTablePlanter,
}
"""By the name of the harness."""
