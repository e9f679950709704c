"""Servers that tests share, and a store on which deep checks take seconds."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.doors.mcp_client import Conversation
from tests.kit.command import SAMPLE, copy_store


@pytest.fixture(scope="session")
def large_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample, with a thousand copies of a thread."""
    path = copy_store(SAMPLE, tmp_path_factory.mktemp("large"))
    with closing(sqlite3.connect(path)) as connection:
        for table in ("checkpoints", "writes"):
            names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            rest = ", ".join(name for name in names if name != "thread_id")
            connection.execute(
                f"WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000)"
                f" INSERT INTO {table} (thread_id, {rest})"
                f" SELECT 'copy-' || n, {rest} FROM s, {table} WHERE thread_id = 'trip-to-kyoto'"
            )
        connection.commit()
    return path


@pytest.fixture(scope="module")
def hiding() -> Iterator[Conversation]:
    """A server of the sample that hides values."""
    with Conversation(SAMPLE) as conversation:
        yield conversation


@pytest.fixture(scope="module")
def showing() -> Iterator[Conversation]:
    """A server of the sample that shows values."""
    with Conversation(SAMPLE, "--values") as conversation:
        yield conversation
