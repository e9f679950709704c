"""Reads stores of earlier releases."""

from collections.abc import Mapping
from typing import Any

import pytest

from ckpt_backends.encryption import DecryptingStore
from ckpt_backends.registry import open_store
from ckpt_backends.testing.conformance.comparison import Known, check_thread
from ckpt_cli.reading.thread import TriggerInference
from tests.kit.command import FIXTURES


def check_store(url: str, truth: Mapping[str, Any], known: Known) -> None:
    failures: list[str] = []
    unknown: set[tuple[str, int]] = set()
    key = truth.get("aes_key", "").encode() or None
    with DecryptingStore(open_store(url), lambda: [key] if key else (), failures.append) as store:
        inference = TriggerInference(store)
        for thread_id, thread in truth["threads"].items():
            try:
                unknown |= check_thread(store, thread_id, thread, known, inference)
            except AssertionError as error:
                failures.append(str(error)[:600])
    assert not failures, "\n\n".join(failures)
    assert unknown == known.next_unknown


def with_engines(name: str, chosen: str) -> list[Any]:
    """Return a server's eras: one with `-m engines`, the others with `-m nightly`."""
    return [
        pytest.param(
            path,
            id=path.name,
            marks=pytest.mark.engines if path.name == chosen else pytest.mark.nightly,
        )
        for path in sorted((FIXTURES / name).iterdir())
    ]
