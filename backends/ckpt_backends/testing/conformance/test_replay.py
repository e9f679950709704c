"""Every step that the official saver stored follows from its writes, or `ckpt` says why not."""

import pytest

from ckpt_backends.registry import open_store
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
