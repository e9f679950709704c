"""The reducers of the channels in the fixtures, and replaying a store."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_backends.protocol import Store
from ckpt_cli.core.replay.report import ReplayReport, judge_all, report
from ckpt_cli.queries.replay import replay_thread
from ckpt_cli.threads.thread import ThreadReader
from ckpt_cli.threads.trigger_inference import TriggerInference

OWN: Mapping[str, set[str]] = {
    "__root__": {"append", "add_messages"},
    "messages": {"add_messages"},
    "messages_plain": {"add_messages"},
    "items": {"append"},
    "items_plain": {"append"},
    "seen": {"append"},
    "total": {"sum"},
    "best": {"max"},
    "worst": {"min"},
    "facts": {"dict_merge"},
    "labels": {"set_union"},
}
"""By channel, as in `fixtures/make/graphs.py` and `graphs.mjs`; all other channels have no
reducer.
"""
CUSTOM = {"longest", "table"}
"""Channels with a reducer that only the application knows."""


def replay_store(store: Store) -> dict[str, ReplayReport]:
    """Replay all threads of a store; each is judged by the results of all of them."""
    inference = TriggerInference(store)
    found = (
        replay_thread(ThreadReader(store, one.thread_id, inference)) for one in store.threads()
    )
    return {one.thread_id: report(one, judgements) for one, judgements in judge_all(found, {})}


def wrong_reducers(reports: Mapping[str, ReplayReport]) -> list[str]:
    """Return the channels for which a reducer was found that the graph does not use."""
    wrong = []
    for thread_id, one in reports.items():
        for (graph, channel), about in one.channels.items():
            own = {None} if channel in CUSTOM else OWN.get(channel, {"last_value"})
            survivors = set(about.judgement.survivors)
            if about.judgement.reducer not in {None, *own} or (
                survivors and about.judgement.evidence and own != {None} and not survivors & own
            ):
                wrong.append(f"{thread_id} {graph} {channel}: {about.judgement}")
    return wrong
