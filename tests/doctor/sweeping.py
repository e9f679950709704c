"""Run the deep checks over whole stores."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ckpt_backends.encryption import DecryptingStore
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_cli.core.doctor.findings import Finding
from ckpt_cli.queries.doctor.examine import deep_findings
from ckpt_cli.queries.doctor.rows import Terms, ThreadReport
from ckpt_cli.reading.thread import ThreadReader, TriggerInference

KEY = b"0123456789abcdef"


def deep_terms(grace: timedelta) -> Terms:
    now = datetime.now(UTC)
    return Terms(now, now - grace, deep=True)


def sweep(store: Store, grace: timedelta = timedelta()) -> tuple[list[Finding], dict[str, str]]:
    """Return all findings, and the threads that could not be checked, with the reasons."""
    inference = TriggerInference(store)
    terms, found, unchecked = deep_terms(grace), list[Finding](), dict[str, str]()
    for thread in store.threads():
        report = ThreadReport(thread.thread_id)
        reader = ThreadReader(store, thread, inference)
        found += deep_findings(reader, terms, report)
        assert report.checked.checkpoints == sum(len(reader.index(ns)) for ns in reader.namespaces)
        if report.unchecked:
            unchecked[thread.thread_id] = report.unchecked
    return found, unchecked


def sweep_url(url: str, key: bytes | None = KEY) -> tuple[list[Finding], dict[str, str]]:
    with DecryptingStore(open_store(url), lambda: [key] if key else (), lambda _: None) as store:
        return sweep(store)


def places(found: list[Finding]) -> set[tuple[str, str | None, str | None]]:
    """Return code, thread and channel of each finding."""
    return {(one.code, one.thread_id, one.channel) for one in found}
