"""What the benchmark runs on: machine, Python, packages and engines."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests import servers

_PACKAGES = (
    *("typer", "ormsgpack", "langgraph", "langgraph-checkpoint", "langgraph-checkpoint-sqlite"),
    *("langgraph-checkpoint-postgres", "langgraph-checkpoint-redis", "psycopg", "redis"),
    *("pymysql", "pymongo", "boto3"),
)


def described() -> Iterator[str]:
    """Yield lines; engines are those that were used until now."""
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    yield f"{_cpu()}, {os.cpu_count()} cores, {gib:.0f} GiB of memory, {platform.system()}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield "; ".join([python, ", ".join(_packages())])
    yield "; ".join([f"SQLite {sqlite3.sqlite_version}", *_engines()])


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _packages() -> Iterator[str]:
    for name in _PACKAGES:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            continue


def _engines() -> Iterator[str]:
    """Yield what answers in the place of each engine; without folders of this machine."""
    for told in servers.USED.values():
        yield told.partition(" of /")[0]
