"""Conversations that nothing befell have no finding, in any era and at any checkpoint."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ckpt_backends.registry import open_store
from ckpt_cli.core.doctor.finding import Finding
from ckpt_cli.queries.doctor.conversations import conversation_findings, conversations
from ckpt_cli.queries.doctor.terms import Terms
from ckpt_cli.threads.states import read_state
from ckpt_cli.threads.thread import ThreadReader
from tests.support import SAMPLE, copy_store, eras

LATER = datetime(2100, 1, 1, tzinfo=UTC)
"""Nothing is too young to be reported."""
EDITED = {("chat-edited", "tool-result-orphaned")}
"""In this thread, an update removes a message with a call and leaves the result."""
LISTS = {"lg-1.2.22": 200, "js-1.7.3": 100}
"""At least this many conversations are looked at."""


def look(path: Path) -> tuple[list[Finding], int]:
    """Return the findings at all checkpoints of a store, and the number of conversations."""
    found: list[Finding] = []
    looked = 0
    with open_store(str(path)) as store:
        for thread in store.threads():
            reader = ThreadReader(store, thread)
            for moment in reader.moments("", state=True):
                looked += len(conversations(read_state(reader, moment)))
                found += conversation_findings(reader, moment, Terms(LATER, LATER))
    return found, looked


ERAS = [
    pytest.param(one, id=one.name, marks=() if one.name in LISTS else pytest.mark.engines)
    for one in eras()
]


@pytest.mark.parametrize("era", ERAS)
def test_clean_conversations_have_no_finding(era: Path, tmp_path: Path) -> None:
    found, looked = look(copy_store(era / "store.db", tmp_path))
    assert {(one.thread_id, one.code) for one in found} == (EDITED if looked else set())
    assert looked >= LISTS.get(era.name, 0)


def test_the_sample_has_no_finding(tmp_path: Path) -> None:
    found, looked = look(copy_store(SAMPLE, tmp_path))
    assert found == []
    assert looked
