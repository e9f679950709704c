"""Every checkpoint reads as LangGraph's own library reads it, and follows from its writes."""

import pytest

from ckpt_backends.registry import open_store
from ckpt_backends.testing.conformance.comparison import Known, check_thread
from ckpt_backends.testing.conformance.replaying import (
    ALWAYS,
    UNVERIFIABLE_NOW,
    check_reports,
    replay_store,
)
from ckpt_backends.testing.filling import FilledStore
from ckpt_cli.core.replay import Verdict
from ckpt_cli.core.state import PREVIOUS

VALUES_ONLY = False


def test_every_thread_reads_as_the_library_reads_it(filled: FilledStore) -> None:
    known = Known(
        lost_deltas=not filled.harness.has_history,
        sparse_objects=filled.harness.omits_defaults,
        pickled=filled.harness.stores_pickles,
    )
    with open_store(filled.harness.url) as store:
        unknown = [
            check_thread(store, thread_id, truth, known)
            for thread_id, truth in filled.threads.items()
        ]
    assert not set().union(*unknown), "what runs next must follow from the stored rows"


def test_every_step_is_explained_by_its_writes(filled: FilledStore) -> None:
    harness = filled.harness
    if not harness.has_history:
        pytest.skip("keeps no history")
    with open_store(harness.url) as store:
        reports = replay_store(store)
    if harness.has_writes:
        known = UNVERIFIABLE_NOW | harness.unverifiable
        mismatches = {one for one in harness.known_mismatches if one[0] in filled.threads}
        check_reports(reports, known, mismatches, refused=harness.failing_scenarios)
        return
    known = UNVERIFIABLE_NOW | ALWAYS | {"writes of its tasks", "are not stored, as after"}
    for one in (finding for about in reports.values() for finding in about.findings):
        assert one.verdict is Verdict.UNVERIFIABLE, one
        assert any(words in one.reason for words in known), one
    # LangGraph itself makes the channel of what an @entrypoint saved, always with this reducer.
    assert not any(
        about.judgement.reducer
        for one in reports.values()
        for (_, channel), about in one.channels.items()
        if channel != PREVIOUS
    )
