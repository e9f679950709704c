"""Runs the commands and statements that `ckpt doctor` prints, as who pastes them does."""

import json
import re
import shlex
import sqlite3
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import psycopg

from ckpt_backends.testing.harness import Harness
from tests.kit.command import ckpt
from tests.kit.savers.redis_threads import client
from tests.kit.servers import mysql_connection

_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')
_HEX = re.compile(rb"\\x([0-9a-f]{2})|\\(.)")
_CREATE = re.compile(r'db\.getCollection\("(\w+)"\)\.createIndex\(({[^}]*})(?:, ({[^}]*}))?\)')


def run_fix(harness: Harness, fix: str) -> str:
    """Run what is printed as `fix` of a finding in the store of a harness.

    Return what a command prints.
    """
    url = harness.url
    words = shlex.split(fix) if fix.startswith(("ckpt ", "sqlite3 ")) else []
    if words[:1] == ["ckpt"]:
        done = ckpt(*words[1:], "--yes")
        # Other damage of the thread may be beyond repair.
        assert done.code in {0, 7}, (fix, done.err)
        return f"{done.out}{done.err}"
    if words[:1] == ["sqlite3"]:
        run_sqlite(words[1], words[2])
    elif url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(fix.encode())
    elif url.startswith("mysql"):
        with mysql_connection(url) as connection, connection.cursor() as cursor:
            for statement in filter(None, map(str.strip, fix.split(";"))):
                cursor.execute(statement)
            connection.commit()
    elif url.startswith(("redis", "valkey")):
        run_redis(url, fix)
    elif url.startswith("mongodb"):
        run_mongodb(harness.database, fix)  # type: ignore[attr-defined]
    else:
        run_sqlite(url, fix)
    return ""


def run_sqlite(path: str, statement: str) -> None:
    """Run a statement, or `.tables`, as the program sqlite3 would."""
    statement = "SELECT name FROM sqlite_master" if statement == ".tables" else statement
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute(statement).fetchall()


def run_redis(url: str, fix: str) -> None:
    """Run a statement as redis-cli would."""
    words = [_unquoted(word.encode()) for word in _WORD.findall(fix)]
    place = urlsplit(url)
    client(f"redis://{place.netloc}{place.path}").execute_command(*words)


def run_mongodb(database: Any, fix: str) -> None:
    """Run a statement as mongosh would."""
    match = _CREATE.fullmatch(fix)
    assert match is not None, fix
    options = json.loads(match[3]) if match[3] else {}
    database[match[1]].create_index(list(json.loads(match[2]).items()), **options)


def _unquoted(word: bytes) -> bytes:
    if not word.startswith(b'"'):
        return word
    return _HEX.sub(lambda one: bytes.fromhex(one[1].decode()) if one[1] else one[2], word[1:-1])
