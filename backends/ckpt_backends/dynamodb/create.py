"""Makes tables as the CloudFormation template of `langgraph-checkpoint-aws` does.

The saver itself makes none. Of the template's settings, point-in-time recovery and tags are left
out: they belong to a deployment, and recovery costs money.
"""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from ckpt_backends.dynamodb.connect import client_of, code_of, explained, session_of
from ckpt_backends.dynamodb.records import CHECKPOINT_PREFIX, CHUNK_PREFIX, WRITES_PREFIX
from ckpt_backends.dynamodb.writer import PARTITION
from ckpt_backends.errors import Refused
from ckpt_backends.transfer.form import Language
from ckpt_backends.url import StoreUrl

_KEYS = {"PK": "HASH", "SK": "RANGE"}
_OWN = (CHECKPOINT_PREFIX, WRITES_PREFIX, CHUNK_PREFIX, PARTITION)
"""How the partitions of the saver and of `ckpt` begin."""
_SAMPLED = 25
_WAIT = {"Delay": 2, "MaxAttempts": 90}


def create_table(url: StoreUrl, language: Language) -> None:  # noqa: ARG001 - Python only
    """Make a table for the saver, unless there is one.

    The bucket for long payloads must exist, if the URL names one. Raises `UsageError`,
    `StoreUnavailable`, and `Refused` if the table has other items.
    """
    session = session_of(url)
    with explained(url, "create"):
        client = client_of(url, session, "dynamodb")
        try:
            if not _is_there(client, url):
                _create(client, url.path)
        finally:
            client.close()


def _is_there(client: Any, url: StoreUrl) -> bool:
    """Whether the table exists. Raises `Refused` if it is not one of the saver."""
    try:
        about = client.describe_table(TableName=url.path)["Table"]
    except ClientError as error:
        if code_of(error) == "ResourceNotFoundException":
            return False
        raise
    keys = {one["AttributeName"]: one["KeyType"] for one in about["KeySchema"]}
    found = client.scan(TableName=url.path, Limit=_SAMPLED)["Items"] if keys == _KEYS else []
    if keys != _KEYS or not all(one["PK"].get("S", "").startswith(_OWN) for one in found):
        raise Refused(
            f"cannot make a store in '{url}': the table holds other items",
            hint="name a table that does not exist",
        )
    return True


def _create(client: Any, table: str) -> None:
    client.create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in _KEYS],
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in _KEYS.items()],
    )
    client.get_waiter("table_exists").wait(TableName=table, WaiterConfig=_WAIT)
    client.update_time_to_live(
        TableName=table, TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"}
    )
