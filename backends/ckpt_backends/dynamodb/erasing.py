"""Names the places where AWS may still hold removed items and payloads.

DynamoDB offers nothing that erases them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from ckpt_backends.changes.remains import BACKUPS, Remaining, Remains
from ckpt_backends.dynamodb.connect import DynamoConnection
from ckpt_backends.dynamodb.driver_errors import explained

_DAYS = 35
"""The longest time for which AWS keeps the past of a table, and its default."""
_STORAGE = Remaining("storage of AWS", "AWS does not say when it overwrites freed storage")


def remains_of(connection: DynamoConnection, left_objects: str) -> Remains:
    """The places that may hold what was removed. Raises `StoreUnavailable`.

    `left_objects` says which payloads in S3 could not be removed; `''` if all were.
    """
    places = []
    if left_objects:
        places.append(Remaining("objects in S3", left_objects, is_reachable=True))
    with explained(connection.url):
        places += _of_table(connection)
        places += _of_bucket(connection)
    return Remains(places=(*places, _STORAGE, BACKUPS))


def _of_table(connection: DynamoConnection) -> Iterator[Remaining]:
    client, table = connection.client, connection.table
    recovery = _asked(lambda: client.describe_continuous_backups(TableName=table))
    if recovery is None:
        yield Remaining("point-in-time recovery", _untold("dynamodb:DescribeContinuousBackups"))
    else:
        about = recovery.get("ContinuousBackupsDescription", {})
        about = about.get("PointInTimeRecoveryDescription", {})
        if about.get("PointInTimeRecoveryStatus") == "ENABLED":
            days = about.get("RecoveryPeriodInDays", _DAYS)
            yield Remaining(
                "point-in-time recovery", f"AWS can restore the table of the last {days} days"
            )
    backups = _asked(lambda: client.list_backups(TableName=table))
    if backups is None:
        yield Remaining("backups of the table", _untold("dynamodb:ListBackups"))
    elif number := len(backups.get("BackupSummaries", ())):
        more = " or more" if backups.get("LastEvaluatedBackupArn") else ""
        yield Remaining("backups of the table", f"it has {number}{more}; delete them in AWS")
    if connection.about.get("StreamSpecification", {}).get("StreamEnabled"):
        yield Remaining("stream of the table", "it holds changes for 24 hours; its readers copy")
    if number := len(connection.about.get("Replicas", ())):
        yield Remaining("replicas in other regions", f"it has {number}; each has its own backups")
    streams = _asked(lambda: client.describe_kinesis_streaming_destination(TableName=table))
    if streams is None:
        reason = _untold("dynamodb:DescribeKinesisStreamingDestination")
        yield Remaining("streams in Kinesis", reason)
    elif number := len(streams.get("KinesisDataStreamDestinations", ())):
        yield Remaining("streams in Kinesis", f"it has {number}; each holds copies of changes")


def _of_bucket(connection: DynamoConnection) -> Iterator[Remaining]:
    if connection.bucket is None:
        return
    told = _asked(lambda: connection.s3.get_bucket_versioning(Bucket=connection.bucket))
    if told is None:
        yield Remaining("older versions of objects in S3", _untold("s3:GetBucketVersioning"))
    elif told.get("Status"):
        yield Remaining(
            "older versions of objects in S3",
            "the bucket keeps versions, also of deleted objects; delete them in AWS",
        )


def _asked(ask: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The answer of AWS; None if it refuses the request."""
    try:
        return ask()
    except ClientError:
        return None


def _untold(action: str) -> str:
    return f"unknown: the user may not ask, which needs {action}"
