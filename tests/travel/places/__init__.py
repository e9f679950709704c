"""Stores in which a thread can be copied, so that each trial has its own.

A copy has the rows of the thread under another thread id. Checkpoint ids, and so task ids, are the
same, so LangGraph resumes it like the original.
"""

from __future__ import annotations

from tests.travel.places.dev import dev_place
from tests.travel.places.mongodb import mongodb_place
from tests.travel.places.mysql import mysql_place
from tests.travel.places.place import POINTERS, Place, Rows
from tests.travel.places.postgres import postgres_place
from tests.travel.places.redis import plain_redis_place, plain_redis_saver_place, redis_place
from tests.travel.places.sqlite import sqlite_place

__all__ = [
    "POINTERS",
    "Place",
    "Rows",
    "dev_place",
    "mongodb_place",
    "mysql_place",
    "plain_redis_place",
    "plain_redis_saver_place",
    "postgres_place",
    "redis_place",
    "sqlite_place",
]
