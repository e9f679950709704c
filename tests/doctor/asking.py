"""Ask about faults: those of an engine, those in all values of a store, and by the command."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ckpt_backends.encryption import DecryptingStore
from ckpt_backends.model import Fault
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_backends.testing.conformance.test_doctor import FAULTY, HIDDEN
from ckpt_cli.core.doctor.findings import Finding
from ckpt_cli.queries.doctor.examine import deep_findings
from ckpt_cli.queries.doctor.rows import Terms, ThreadReport
from ckpt_cli.reading.thread import ThreadReader, TriggerInference
from tests.kit.command import ckpt

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
