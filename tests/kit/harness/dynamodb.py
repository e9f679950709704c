"""DynamoDB tables, with a bucket for large payloads."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from ckpt_backends.testing.harness import Harness, StoredRows, TestServer
from ckpt_backends.url import parse_url
from tests.kit.servers import Server

_REGIONS = ("eu-central-1", "eu-west-1", "eu-west-2", "eu-west-3", "us-west-1", "us-west-2")
"""The test server copies all tables of a region for each transaction, so each store has its own."""
_NUMBERS = count()
_KEYS = ("PK", "SK")


@cache
def session() -> Any:
    import boto3

    return boto3.Session()


class InOrderClient:
    """A client of DynamoDB that returns writes in the order in which LangGraph applies them."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def query(self, **asked: Any) -> Any:
        if not asked["ExpressionAttributeValues"][":pk"]["S"].startswith("WRITES_"):
            return self._client.query(**asked)
        # The projection of the saver has no task path.
        rest = {"ProjectionExpression", "ExpressionAttributeNames"}
        asked = {name: one for name, one in asked.items() if name not in rest}
        answer = self._client.query(**asked)
        answer["Items"].sort(key=_write_order)
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def _write_order(item: dict[str, Any]) -> tuple[str, str, int]:
    return item.get("task_path", {"S": ""})["S"], item["task_id"]["S"], int(item["idx"]["N"])


def writes_in_order(saver: Any) -> Any:
    """Return the saver with writes by task paths; the official one sorts them by task ids."""
    found = copy(saver)
    found.repo = copy(saver.repo)
    found.repo.dynamodb_client = InOrderClient(saver.client)
    return found


class DynamoDbHarness(Harness):
    """`DynamoDBSaver` of langgraph-checkpoint-aws on a table of its own."""

    name: ClassVar[str] = "dynamodb"
    server: ClassVar[str | None] = "dynamodb"
    values_as_documents: ClassVar[bool] = True
    """Body and metadata are two entries of one stored map, which needs some bytes more."""
    ttl: int | None = None
    """Time to live of what the saver stores, in seconds."""
    compresses: bool = False

    def create(self, folder: Path, server: TestServer | None) -> str:
        assert isinstance(server, Server)
        region = _REGIONS[next(_NUMBERS) % len(_REGIONS)]
        table = f"ckpt-test-{uuid.uuid4().hex[:12]}"
        url = f"dynamodb://{table}?region={region}&endpoint={server.url}"
        self._url = f"{url}&bucket={table}&s3_endpoint={server.url}&key_prefix=agents/one"
        kinds = zip(_KEYS, ("HASH", "RANGE"), strict=True)
        self.client.create_table(
            TableName=table,
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in kinds],
            AttributeDefinitions=[{"AttributeName": one, "AttributeType": "S"} for one in _KEYS],
            BillingMode="PAY_PER_REQUEST",
        )
        where = {"LocationConstraint": region}
        self.s3.create_bucket(Bucket=table, CreateBucketConfiguration=where)
        self.stack.callback(self.client.delete_table, TableName=table)
        return self._url

    @property
    def params(self) -> dict[str, str]:
        return dict(parse_url(self._url).params)

    @property
    def table(self) -> str:
        return parse_url(self._url).path

    @cached_property
    def client(self) -> Any:
        return self._client("dynamodb", "endpoint")

    @cached_property
    def s3(self) -> Any:
        return self._client("s3", "s3_endpoint")

    def _client(self, service: str, name: str) -> Any:
        params = self.params
        return session().client(service, region_name=params["region"], endpoint_url=params[name])

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from langgraph_checkpoint_aws import DynamoDBSaver

        params = self.params
        offload = {"bucket_name": params["bucket"], "endpoint_url": params["s3_endpoint"]}
        offload["key_prefix"] = params["key_prefix"]
        yield DynamoDBSaver(
            table_name=self.table,
            session=session(),
            region_name=params["region"],
            endpoint_url=params["endpoint"],
            ttl_seconds=self.ttl,
            enable_checkpoint_compression=self.compresses,
            s3_offload_config=offload,
        )

    @cached_property
    def kept_saver(self) -> Any:
        return writes_in_order(self.stack.enter_context(self.saver()))

    def corrected_saver(self, saver: Any) -> Any:
        return writes_in_order(saver)

    def items(self) -> list[dict[str, Any]]:
        pages = self.client.get_paginator("scan").paginate(TableName=self.table)
        found = [one for page in pages for one in page["Items"]]
        return sorted(found, key=lambda one: (one["PK"]["S"], one["SK"]["S"]))

    def objects(self) -> dict[str, str]:
        """The digests of all objects of the bucket, by key."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.table)
        return {one["Key"]: one["ETag"] for page in pages for one in page.get("Contents", ())}

    def forget(self, thread_id: str) -> None:
        self.kept_saver.delete_thread(thread_id)
        # The saver leaves writes behind whose checkpoint is gone.
        for one in self._of(thread_id):
            self.client.delete_item(TableName=self.table, Key={name: one[name] for name in _KEYS})

    def fingerprint(self) -> object:
        return self.items(), self.objects()

    def _of(self, thread_id: str) -> Iterator[dict[str, Any]]:
        starts = (f"WRITES_{thread_id}#", f"CHUNK_{thread_id}#")
        for one in self.items():
            partition = one["PK"]["S"]
            if partition == f"CHECKPOINT_{thread_id}" or partition.startswith(starts):
                yield one

    def rows(self, thread_id: str) -> StoredRows:
        found: StoredRows = {}
        for one in self._of(thread_id):
            kind = one["PK"]["S"].partition("_")[0]
            found.setdefault(kind, []).append(_columns(_without_thread(one, thread_id)))
        return found


def _without_thread(item: dict[str, Any], thread_id: str) -> dict[str, Any]:
    names = [name for name in ("PK", "ref_key") if name in item]
    return item | {name: {"S": item[name]["S"].replace(f"_{thread_id}", "_", 1)} for name in names}


def _columns(item: dict[str, Any]) -> tuple[Any, ...]:
    """An item as a row, whose sixth column is the payload: a copy may change the metadata in it."""
    names = ("PK", "SK", "ref_key", "parent_checkpoint_id")
    rest = {name: one for name, one in item.items() if name not in {*names, "payload"}}
    first = [repr(item.get(name)) for name in names]
    return (*first, repr(sorted(rest.items())), repr(item.get("payload")))


def entry(checkpoint_id: str) -> dict[str, Any]:
    return {"PK": {"S": "CHECKPOINT_trip"}, "SK": {"S": f"#{checkpoint_id}"}}
