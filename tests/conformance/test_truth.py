"""Every checkpoint reads as LangGraph's own library reads it, live and in stores of five eras."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ckpt_backends.encrypted import DecryptingStore
from ckpt_backends.registry import open_store
from tests.conformance.conftest import Filled
from tests.conformance.truth import Known, check_thread
from tests.support import FIXTURES, copy_store

NEVER_RAN = {
    ("breakpoint-after", 2),
    ("breakpoint-before", 2),
    ("breakpoint-subgraph", 1),
    ("error", 1),
    ("update-asking", 2),
    ("update-fresh", 0),
    ("update-mid", 2),
}
"""A node that never ran in the thread is next, and bodies with `v` < 4 do not name it."""
PARTLY_FINISHED = {
    "error-parallel": ["boom"],
    "interrupt-parallel": ["ask_a", "ask_b"],
}
"""The newest library computes other task ids than those stored, so it lists finished tasks too."""

OLDEST = Known(
    next_unknown=frozenset(
        NEVER_RAN | {("breakpoint-subgraph-passed", 2), ("interrupt-nested", 1)}
    ),
    waiting={**PARTLY_FINISHED, "interrupt-sends": ["worker"] * 3},
    lost_interrupts=True,
)
KNOWN = {
    "lg-0.2.14-json": replace(OLDEST, sparse_objects=True),
    "lg-0.2.14": OLDEST,
    "lg-0.2.70": Known(
        next_unknown=frozenset(
            NEVER_RAN
            | {("async-asking", 1), ("interrupt-nested-answered", 2)}
            # A last node, whose name has a successor in another graph of the same store.
            | {("command-goto", 3), ("command-input", 3), ("command-input", 4)}
            | {("subgraph-stateful-node", step) for step in (2, 6, 10)}
        ),
        waiting={
            **PARTLY_FINISHED,
            "interrupt-one-answered": ["ask_b"],
            "interrupt-sends": ["worker"] * 2,
        },
    ),
    "lg-0.6.11": Known(),
    "lg-1.0.10": Known(),
    "lg-1.2.22": Known(),
    "lg-1.2.22-serde": Known(printed=True),
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
    key = truth.get("aes_key", "").encode() or None
    path = copy_store(FIXTURES / era / "store.db", tmp_path)
    with DecryptingStore(open_store(str(path)), lambda: key, failures.append) as store:
        for thread_id, thread in truth["threads"].items():
            try:
                unknown |= check_thread(store, thread_id, thread, known)
            except AssertionError as error:
                failures.append(str(error)[:600])
    assert not failures, "\n\n".join(failures)
    assert unknown == known.next_unknown
