"""How rows of each layout are changed by its driver."""

from typing import Any

from tests.kit.planting.agentcore import AgentCorePlanter
from tests.kit.planting.base import Planter
from tests.kit.planting.cosmosdb import CosmosPlanter
from tests.kit.planting.dev import DevPlanter
from tests.kit.planting.documents import KaflowPlanter, MongoPlanter
from tests.kit.planting.dynamodb import DynamoDbPlanter
from tests.kit.planting.firestore import FirestorePlanter
from tests.kit.planting.javascript import (
    JavaScriptDevPlanter,
    JavaScriptDocumentPlanter,
    JavaScriptRedisPlanter,
    ShallowJavaScriptRedisPlanter,
)
from tests.kit.planting.kagent import KagentPlanter
from tests.kit.planting.objectstorage import ObjectStoragePlanter
from tests.kit.planting.redis import (
    AgentCoreValkeyPlanter,
    HashPlanter,
    PlainPlanter,
    RedisPlanter,
    ShallowRedisPlanter,
    ValkeyPlanter,
)
from tests.kit.planting.sql import (
    MySQLPlanter,
    PostgresPlanter,
    ShallowMySQLPlanter,
    ShallowPostgresPlanter,
    SqlitePlanter,
)
from tests.kit.planting.supabase import SupabasePlanter
from tests.kit.planting.three_table import ThreeTablePlanter

PLANTERS: dict[str, type[Planter[Any]]] = {
    "sqlite": SqlitePlanter,
    "postgres": PostgresPlanter,
    "postgres-shallow": ShallowPostgresPlanter,
    "mysql": MySQLPlanter,
    "mysql-shallow": ShallowMySQLPlanter,
    "mongodb": MongoPlanter,
    "mongodb-js": JavaScriptDocumentPlanter,
    "kaflow": KaflowPlanter,
    "kagent": KagentPlanter,
    "supabase": SupabasePlanter,
    "redis": RedisPlanter,
    "redis-shallow": ShallowRedisPlanter,
    "redis-hash": HashPlanter,
    "redis-js": JavaScriptRedisPlanter,
    "redis-js-shallow": ShallowJavaScriptRedisPlanter,
    "redis-plain": PlainPlanter,
    "valkey": ValkeyPlanter,
    "valkey-agentcore": AgentCoreValkeyPlanter,
    "agentcore": AgentCorePlanter,
    "dynamodb": DynamoDbPlanter,
    "cosmosdb": CosmosPlanter,
    "firestore": FirestorePlanter,
    "objectstorage": ObjectStoragePlanter,
    "objectstorage-s3": ObjectStoragePlanter,
    "langgraph-dev": DevPlanter,
    "langgraph-dev-js": JavaScriptDevPlanter,
    "three-table": ThreeTablePlanter,
    "three-table-latest": ThreeTablePlanter,
}
"""By the name of the harness."""
