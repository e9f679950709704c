"""Every checkpoint reads as LangGraph's own library reads it, live and in stores of five eras."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ckpt_backends.registry import open_store
from tests.conformance.conftest import Filled
from tests.conformance.truth import Known, check_thread
from tests.support import FIXTURES, copy_store

KNOWN = {
    "lg-0.2.14-json": Known(lost_interrupts=True, sparse_objects=True),
    "lg-0.2.14": Known(),
    "lg-0.2.70": Known(),
    "lg-0.6.11": Known(),
    "lg-1.0.10": Known(),
    "lg-1.2.22": Known(),
}


def test_a_store_filled_now_reads_as_the_library_reads_it(filled: Filled) -> None:
    with open_store(filled.bench.url) as store:
        unknown = [
            check_thread(store, thread_id, truth, Known())
            for thread_id, truth in filled.threads.items()
        ]
    assert not set().union(*unknown)


@pytest.mark.parametrize("era", KNOWN)
def test_a_store_of_an_older_era_reads_as_its_library_read_it(era: str, tmp_path: Path) -> None:
    truth = json.loads((FIXTURES / era / "truth.json").read_text("utf-8"))
    known = KNOWN[era]
    failures: list[str] = []
    unknown: set[tuple[str, int]] = set()
    with open_store(str(copy_store(FIXTURES / era / "store.db", tmp_path))) as store:
        for thread_id, thread in truth["threads"].items():
            try:
                unknown |= check_thread(store, thread_id, thread, known)
            except AssertionError as error:
                failures.append(str(error)[:600])
    assert not failures, "\n\n".join(failures)
    assert unknown == known.next_unknown
