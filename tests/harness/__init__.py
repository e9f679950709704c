"""The layouts that the tests run on. A new layout adds one class to `HARNESSES`."""

from __future__ import annotations

from ckpt_backends.testing.harness import Harness
from tests.harness.dynamodb import DynamoDbHarness
from tests.harness.javascript import (
    JavaScriptDevHarness,
    JavaScriptMongoHarness,
    JavaScriptRedisHarness,
    ShallowJavaScriptRedisHarness,
)
from tests.harness.kaflow import KaflowHarness
from tests.harness.kagent import KagentHarness
from tests.harness.langgraph_dev import DevHarness
from tests.harness.mongodb import MongoHarness
from tests.harness.mysql import MySQLHarness, ShallowMySQLHarness
from tests.harness.postgres import PostgresHarness, ShallowPostgresHarness
from tests.harness.redis import (
    PlainRedisHarness,
    PlainRedisSaverHarness,
    RedisHarness,
    ShallowRedisHarness,
)
from tests.harness.sqlite import SqliteHarness
from tests.harness.three_table import (
    LatestThreeTableHarness,
    MySQLThreeTableHarness,
    PostgresThreeTableHarness,
    ThreeTableHarness,
)
from tests.harness.valkey import ValkeyHarness

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
    KagentHarness,
]

__all__ = ["HARNESSES", "Harness"]
