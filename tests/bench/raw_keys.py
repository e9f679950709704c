"""Baselines on Redis, MongoDB and DynamoDB: the drivers alone, and the official savers.

Each is a program for `python -c` that takes the store's URL.
"""

from __future__ import annotations

from tests.bench.raw import PARSED

REDIS_START = (
    PARSED
    + """
import sys
import redis
client = redis.Redis.from_url(sys.argv[1], protocol=2)
client.ping()
"""
)

REDIS_AGGREGATE = f"""
{REDIS_START}
found = client.execute_command("FT.AGGREGATE", "checkpoint", "*", "GROUPBY", "1", "@thread_id",
    "REDUCE", "MAX", "1", "@checkpoint_ts", "AS", "newest", "REDUCE", "COUNT", "0", "AS", "n",
    "SORTBY", "2", "@newest", "DESC", "MAX", "1000000", "LIMIT", "0", "1000000", "TIMEOUT", "0")
print(len(found))
"""
"""Threads by the search index. Without `TIMEOUT`, the answer ends after half a second."""

REDIS_OFFICIAL = """
import sys
from langgraph.checkpoint.redis import RedisSaver
with RedisSaver.from_conn_string(sys.argv[1]) as saver:
    saver.setup()
    for found in saver.list(None, limit=int(sys.argv[2])):
        print(found.config["configurable"]["thread_id"])
"""

REDIS_FIND_AND_DELETE = f"""
{REDIS_START}
pipe = client.pipeline(transaction=False)
names = list(client.scan_iter("*old-*", count=5000))
for start in range(0, len(names), 1000):
    pipe.unlink(*names[start:start + 1000])
    pipe.execute()
"""

REDIS_OFFICIAL_DELETE = """
import sys
from langgraph.checkpoint.redis import RedisSaver
with RedisSaver.from_conn_string(sys.argv[1]) as saver:
    saver.setup()
    for n in range(int(sys.argv[2])):
        saver.delete_thread(f"old-{n}")
"""

MONGODB_START = (
    PARSED
    + """
import sys
import pymongo
database = pymongo.MongoClient(sys.argv[1])[sys.argv[1].rpartition("/")[2]]
database.command("ping")
"""
)

MONGODB_THREADS = f"""
{MONGODB_START}
found = database.checkpoints.aggregate([
    {{"$group": {{"_id": "$thread_id", "newest": {{"$max": "$checkpoint_id"}},
                  "n": {{"$sum": 1}}}}}},
    {{"$sort": {{"newest": -1}}}},
])
print(len(list(found)))
"""

MONGODB_HEAD = f"""
{MONGODB_START}
import ormsgpack
(found,) = database.checkpoints.find({{"thread_id": sys.argv[2], "checkpoint_ns": ""}}).sort(
    "checkpoint_id", -1).limit(1)
ormsgpack.unpackb(found["checkpoint"], ext_hook=lambda code, data: None)
"""

MONGODB_QUESTIONS = f"""
{MONGODB_START}
heads = {{row["_id"]: row["newest"] for row in database.checkpoints.aggregate([
    {{"$group": {{"_id": "$thread_id", "newest": {{"$max": "$checkpoint_id"}}}}}}])}}
for row in database.checkpoint_writes.find({{"channel": "__interrupt__"}}):
    if heads[row["thread_id"]] == row["checkpoint_id"]:
        print(row["thread_id"])
"""

MONGODB_FIND_AND_DELETE = f"""
{MONGODB_START}
found = database.checkpoints.aggregate([{{"$group": {{"_id": "$thread_id"}}}}])
names = [row["_id"] for row in found if row["_id"].startswith("old-")]
for start in range(0, len(names), 100):
    for collection in (database.checkpoint_writes, database.checkpoints):
        collection.delete_many({{"thread_id": {{"$in": names[start:start + 100]}}}})
"""

MONGODB_OFFICIAL_DELETE = """
import pymongo, sys
from langgraph.checkpoint.mongodb import MongoDBSaver
saver = MongoDBSaver(pymongo.MongoClient(sys.argv[1]), sys.argv[1].rpartition("/")[2])
for n in range(int(sys.argv[2])):
    saver.delete_thread(f"old-{n}")
"""

DYNAMODB_START = """
import sys
from urllib.parse import parse_qs, urlsplit
import boto3, click
parts = urlsplit(sys.argv[1])
asked = parse_qs(parts.query)
client = boto3.client("dynamodb", region_name=asked["region"][0], endpoint_url=asked["endpoint"][0])
client.describe_table(TableName=parts.netloc)
"""

DYNAMODB_SCAN = f"""
{DYNAMODB_START}
pages = client.get_paginator("scan").paginate(TableName=parts.netloc, ProjectionExpression="PK, SK")
print(sum(len(page["Items"]) for page in pages))
"""
"""A pass over all keys: a table has no index of threads."""

DYNAMODB_HEAD = f"""
{DYNAMODB_START}
found = client.query(TableName=parts.netloc, KeyConditionExpression="PK = :pk", Limit=1,
    ScanIndexForward=False, ExpressionAttributeValues={{":pk": {{"S": sys.argv[2]}}}})
print(len(found["Items"]))
"""
