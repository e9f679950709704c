"""How rows are changed by their drivers, in a layout of each kind that the doctor reads."""

from typing import Any

from tests.kit.planting.base import Planter
from tests.kit.planting.documents import MongoPlanter
from tests.kit.planting.redis import RedisPlanter
from tests.kit.planting.sql import MySQLPlanter, PostgresPlanter, SqlitePlanter

PLANTERS: dict[str, type[Planter[Any]]] = {
    "sqlite": SqlitePlanter,
    "postgres": PostgresPlanter,
    "mysql": MySQLPlanter,
    "mongodb": MongoPlanter,
    "redis": RedisPlanter,
}
"""By the name of the harness."""
