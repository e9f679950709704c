"""Replays a store, and compares what it finds with the graphs of the scenarios."""

from collections.abc import Collection, Mapping, Set

from ckpt_backends.protocol import Store
from ckpt_cli.core.replay import Replayed, Verdict, judge_all
from ckpt_cli.queries.replay import replay_thread
from ckpt_cli.reading.thread import ThreadReader, TriggerInference

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
"""By channel, as in the graphs of the scenarios; all other channels have no reducer."""
CUSTOM = {"longest", "table"}
"""Channels with a reducer that only the application knows."""
DELTA = "a DeltaChannel stores no value"
ALWAYS = {"parent is not stored", "explains other steps", "no known reducer", DELTA}
"""Words of reasons for which a step of any store may be unverifiable."""
UNVERIFIABLE_NOW = {"update_state", "durability"}
"""The same for what the newest LangGraph stores."""


def replay_store(store: Store) -> dict[str, Replayed]:
    """Replay all threads of a store; each is judged by the results of all of them."""
    inference = TriggerInference(store)
    found = (
        replay_thread(ThreadReader(store, one.thread_id, inference)) for one in store.threads()
    )
    return {one.thread_id: one for one in judge_all(found, {})}


def wrong_reducers(reports: Mapping[str, Replayed]) -> list[str]:
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


def check_reports(
    reports: Mapping[str, Replayed],
    unverifiable: Set[str],
    damaged: Set[tuple[str, int | None, str]] = frozenset(),
    refused: Collection[str] = (),
    most: float | None = None,
) -> None:
    """Assert that each transition is explained.

    `unverifiable` has words of the allowed reasons why a step cannot be verified, `damaged` the
    (thread, step, channel) that must differ. Of threads in `refused`, writes may be missing too.
    At most `most` transitions may be unverifiable, those of DeltaChannels not counted; by default
    one in 25.
    """
    findings = [(name, one) for name, about in reports.items() for one in about.findings]
    wrong = {
        (name, one.transition.step, one.check.channel)
        for name, one in findings
        if one.verdict is Verdict.MISMATCH
    }
    assert wrong == damaged, "(thread, step, channel) whose value does not follow from the writes"
    known = unverifiable | ALWAYS
    unverified = [pair for pair in findings if pair[1].verdict is Verdict.UNVERIFIABLE]
    for name, one in unverified:
        allowed = known | {"writes of its tasks"} if name in refused else known
        assert any(words in one.reason for words in allowed), (name, one)
    total = sum(len(one.transitions) for one in reports.values())
    steps = {(name, *one.transition[:3]) for name, one in unverified if DELTA not in one.reason}
    assert len(steps) <= (total / 25 if most is None else most), "too many steps cannot be verified"
    assert wrong_reducers(reports) == []
