"""Ask about faults: those of an engine, those in all values of a store, and by the command; run
what is printed as their fix, as who pastes it does."""

import json
import re
import shlex
import sqlite3
from collections.abc import Collection
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

from ckpt_backends.encryption import DecryptingStore
from ckpt_backends.model import Fault
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_backends.testing.conformance.test_doctor import FAULTY, HIDDEN
from ckpt_backends.testing.harness import Harness
from ckpt_cli.core.doctor.findings import Finding
from ckpt_cli.queries.doctor.examine import deep_findings
from ckpt_cli.queries.doctor.rows import Terms, ThreadReport
from ckpt_cli.reading.thread import ThreadReader, TriggerInference
from tests.kit.command import ckpt
from tests.kit.savers.redis_threads import client
from tests.kit.servers import mysql_connection

KEY = b"0123456789abcdef"


def faults(url: str | Path) -> list[Fault]:
    """Return the faults of the store as a whole."""
    with open_store(str(url)) as store:
        return list(store.faults())


def only(url: str | Path) -> Fault:
    """Return its only fault."""
    (found,) = faults(url)
    return found


def faults_of_all(url: str) -> list[Fault]:
    """Return the faults of the store as a whole, and of its suspect threads."""
    with open_store(url) as store:
        found = list(store.faults())
        for thread_id in store.suspect_threads():
            found += store.thread_faults(thread_id)
    return found


def findings(url: str | Path, *words: str) -> list[Any]:
    """Return what `ckpt doctor` prints."""
    found: list[Any] = ckpt("-s", url, "doctor", "-o", "json", *words).json["findings"]
    return found


def codes(url: str | Path, *words: str) -> list[str]:
    return [one["code"] for one in findings(url, *words)]


def left_in(
    url: str | Path, *words: str, ignored: Collection[tuple[str, str]] = ()
) -> list[dict[str, Any]]:
    """Return what is found in a whole store to which nobody writes any more.

    Without what the conformance suite's threads are known for, and what is `ignored`.
    """
    answer = ckpt("-s", url, "doctor", "--deep", "--grace", "0s", "-o", "json", *words)
    assert answer.code in {0, 1}, answer.err
    assert answer.json["complete"], answer.json["unchecked"]
    known = {*FAULTY, *ignored}
    return [
        one
        for one in answer.json["findings"]
        if (one["code"], one["thread_id"]) not in known and (one["code"], one["severity"]) != HIDDEN
    ]


def sweep(store: Store, grace: timedelta = timedelta()) -> tuple[list[Finding], dict[str, str]]:
    """Return all findings, and the threads that could not be checked, with the reasons."""
    inference, now = TriggerInference(store), datetime.now(UTC)
    terms, found, unchecked = Terms(now, now - grace, deep=True), list[Finding](), dict[str, str]()
    for thread in store.threads():
        report = ThreadReport(thread.thread_id)
        reader = ThreadReader(store, thread, inference)
        found += deep_findings(reader, terms, report)
        assert report.checked.checkpoints == sum(len(reader.index(ns)) for ns in reader.namespaces)
        if report.unchecked:
            unchecked[thread.thread_id] = report.unchecked
    return found, unchecked


def sweep_url(
    url: str | Path, key: bytes | None = KEY, grace: timedelta = timedelta()
) -> tuple[list[Finding], dict[str, str]]:
    opened = open_store(str(url))
    with DecryptingStore(opened, lambda: [key] if key else (), lambda _: None) as store:
        return sweep(store, grace)


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
