"""The stores of the time travel tests, to test removal."""

from __future__ import annotations

from tests.travel.conftest import (
    mongodb_filled,
    mysql_filled,
    plain_redis_filled,
    plain_redis_saver_filled,
    postgres_filled,
    quiet,
    redis_filled,
    sqlite_filled,
)

__all__ = [
    "mongodb_filled",
    "mysql_filled",
    "plain_redis_filled",
    "plain_redis_saver_filled",
    "postgres_filled",
    "quiet",
    "redis_filled",
    "sqlite_filled",
]
