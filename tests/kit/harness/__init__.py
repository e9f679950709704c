"""The layouts that the tests run on. A new layout adds one class to `HARNESSES`."""

from ckpt_backends.testing.harness import Harness
from tests.kit.harness import (
    agentcore,
    cosmosdb,
    dynamodb,
    firestore,
    javascript,
    kaflow,
    kagent,
    langgraph_dev,
    mongodb,
    mysql,
    objectstorage,
    postgres,
    redis,
    sqlite,
    supabase,
    three_table,
    valkey,
)

HARNESSES: list[type[Harness]] = [
    *(sqlite.SqliteHarness, postgres.PostgresHarness, postgres.ShallowPostgresHarness),
    *(mysql.MySQLHarness, mysql.ShallowMySQLHarness, langgraph_dev.DevHarness),
    *(mongodb.MongoHarness, kaflow.KaflowHarness),
    *(redis.RedisHarness, redis.ShallowRedisHarness, redis.PlainRedisHarness),
    *(javascript.JavaScriptRedisHarness, javascript.ShallowJavaScriptRedisHarness),
    *(javascript.JavaScriptMongoHarness, javascript.JavaScriptDevHarness),
    *(redis.PlainRedisSaverHarness, three_table.ThreeTableHarness),
    *(three_table.LatestThreeTableHarness, three_table.PostgresThreeTableHarness),
    *(three_table.MySQLThreeTableHarness, dynamodb.DynamoDbHarness),
    *(valkey.ValkeyHarness, valkey.AgentCoreValkeyHarness),
    *(agentcore.AgentCoreHarness, agentcore.AgentCoreSnapshotHarness, kagent.KagentHarness),
    *(objectstorage.ObjectStorageHarness, objectstorage.BucketHarness, cosmosdb.CosmosHarness),
    *(firestore.FirestoreHarness, supabase.SupabaseHarness),
]
