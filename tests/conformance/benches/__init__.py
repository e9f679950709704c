"""The stores that the conformance suite runs on. A new layout adds one class to `BENCHES`."""

from __future__ import annotations

from tests.conformance.benches.bench import Bench
from tests.conformance.benches.dev import DevBench
from tests.conformance.benches.javascript import (
    JavaScriptMongoBench,
    JavaScriptRedisBench,
    ShallowJavaScriptRedisBench,
)
from tests.conformance.benches.kaflow import KaflowBench
from tests.conformance.benches.mongodb import MongoBench
from tests.conformance.benches.mysql import MySQLBench, ShallowMySQLBench
from tests.conformance.benches.postgres import PostgresBench, ShallowPostgresBench
from tests.conformance.benches.redis import (
    PlainRedisBench,
    PlainRedisSaverBench,
    RedisBench,
    ShallowRedisBench,
)
from tests.conformance.benches.sqlite import SqliteBench

BENCHES: list[type[Bench]] = [
    SqliteBench,
    PostgresBench,
    ShallowPostgresBench,
    MySQLBench,
    ShallowMySQLBench,
    DevBench,
    MongoBench,
    KaflowBench,
    RedisBench,
    ShallowRedisBench,
    PlainRedisBench,
    JavaScriptRedisBench,
    ShallowJavaScriptRedisBench,
    JavaScriptMongoBench,
    PlainRedisSaverBench,
]

__all__ = ["BENCHES", "Bench"]
