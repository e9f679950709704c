"""The layouts that the tests run on. A new layout adds one class to `HARNESSES`."""

from ckpt_backends.testing.harness import Harness
from tests.kit.harness.agentcore import AgentCoreHarness, AgentCoreSnapshotHarness
from tests.kit.harness.cosmosdb import CosmosHarness
from tests.kit.harness.dynamodb import DynamoDbHarness
from tests.kit.harness.firestore import FirestoreHarness
from tests.kit.harness.javascript import (
    JavaScriptDevHarness,
    JavaScriptMongoHarness,
    JavaScriptRedisHarness,
    ShallowJavaScriptRedisHarness,
)
from tests.kit.harness.kaflow import KaflowHarness
from tests.kit.harness.kagent import KagentHarness
from tests.kit.harness.langgraph_dev import DevHarness
from tests.kit.harness.mongodb import MongoHarness
from tests.kit.harness.mysql import MySQLHarness, ShallowMySQLHarness
from tests.kit.harness.objectstorage import BucketHarness, ObjectStorageHarness
from tests.kit.harness.postgres import PostgresHarness, ShallowPostgresHarness
from tests.kit.harness.redis import (
    PlainRedisHarness,
    PlainRedisSaverHarness,
    RedisHarness,
    ShallowRedisHarness,
)
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.harness.supabase import SupabaseHarness
from tests.kit.harness.three_table import (
    LatestThreeTableHarness,
    MySQLThreeTableHarness,
    PostgresThreeTableHarness,
    ThreeTableHarness,
)
from tests.kit.harness.valkey import AgentCoreValkeyHarness, ValkeyHarness

HARNESSES: list[type[Harness]] = [
    SqliteHarness,
    PostgresHarness,
    ShallowPostgresHarness,
    MySQLHarness,
    ShallowMySQLHarness,
    DevHarness,
    MongoHarness,
    KaflowHarness,
    RedisHarness,
    ShallowRedisHarness,
    PlainRedisHarness,
    JavaScriptRedisHarness,
    ShallowJavaScriptRedisHarness,
    JavaScriptMongoHarness,
    JavaScriptDevHarness,
    PlainRedisSaverHarness,
    ThreeTableHarness,
    LatestThreeTableHarness,
    PostgresThreeTableHarness,
    MySQLThreeTableHarness,
    DynamoDbHarness,
    ValkeyHarness,
    AgentCoreValkeyHarness,
    AgentCoreHarness,
    AgentCoreSnapshotHarness,
    KagentHarness,
    ObjectStorageHarness,
    BucketHarness,
    CosmosHarness,
    FirestoreHarness,
    SupabaseHarness,
]
__all__ = ["HARNESSES", "Harness"]
