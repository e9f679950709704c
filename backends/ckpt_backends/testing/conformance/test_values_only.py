"""What layouts without bodies tell, held against what the official library says of the threads.

They store neither metadata nor versions, so that steps, sources and what runs next are unknown;
their ids, times, parents and values are those of the library.
"""

from typing import Any

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Value
from ckpt_backends.model import TypedBytes, step_of
from ckpt_backends.registry import open_store
from ckpt_backends.testing.command_line import ckpt
from ckpt_backends.testing.conformance.answers import rows
from ckpt_backends.testing.conformance.replaying import replay_store
from ckpt_backends.testing.filling import FilledStore
from ckpt_cli.core.replay import Verdict
from ckpt_cli.core.state import is_state, without_snapshot
from ckpt_cli.core.values import same
from ckpt_cli.reading.states import read_state
from ckpt_cli.reading.thread import Moment, ThreadReader

VALUES_ONLY = True
PLAIN = ("linear", "chat", "reducers")
"""Threads without updates or questions, of which the library drops some of what was written."""


def told(filled: FilledStore, *words: str) -> Any:
    return ckpt("-s", filled.harness.url, *words, "-o", "json").json


def test_as_of_a_time_a_thread_has_the_checkpoints_of_then(filled: FilledStore) -> None:
    for thread_id in filled.threads:
        listed = told(filled, "history", thread_id)
        moment = listed[len(listed) // 2]["ts"]
        then = [one["checkpoint_id"] for one in listed if one["ts"] <= moment]
        found = told(filled, "history", thread_id, "--as-of", moment)
        assert [one["checkpoint_id"] for one in found] == then
        (row,) = told(filled, "threads", "list", "--match", thread_id, "--as-of", moment)
        assert row["head"] == then[0]


def test_every_state_is_the_one_that_was_stored_or_said_not_to_be(filled: FilledStore) -> None:
    """The library adds what a caller wrote since; here that stands with the next checkpoint."""
    with open_store(filled.harness.url) as store, filled.harness.saver() as saver:
        for thread_id, truth in filled.threads.items():
            reader = ThreadReader(store, thread_id)
            for ns, history in truth["history"].items():
                wanted = {one["checkpoint_id"]: one for one in history}
                assert [one.key.checkpoint_id for one in reader.index(ns)] == list(wanted)
                for place, moment in enumerate(reader.moments(ns, state=True)):
                    parent = wanted[moment.key.checkpoint_id]["parent_checkpoint_id"]
                    assert moment.checkpoint.parent_checkpoint_id == parent
                    assert (moment.step.next, moment.source) == (None, None)
                    if filled.harness.newest_values_only and place:
                        assert moment.body.problem is not None
                        assert moment.body.problem.reason.startswith("not stored")
                        continue
                    state = read_state(reader, moment)
                    assert state.rebuilt == {}, moment.key
                    want = _stored(saver, moment)
                    assert state.values.keys() == want.keys(), moment.key
                    for name, value in want.items():
                        assert same(state.values[name], value), (moment.key, name)


def _stored(saver: Any, moment: Moment) -> dict[str, Value]:
    """The state that the saver was given."""
    key = moment.key
    found = saver.get_tuple(
        {
            "configurable": {
                "thread_id": key.thread_id,
                "checkpoint_ns": key.checkpoint_ns,
                "checkpoint_id": key.checkpoint_id,
            }
        }
    )
    typed = {
        name: saver.serde.dumps_typed(value)
        for name, value in found.checkpoint["channel_values"].items()
        if is_state(name, moment.body)
    }
    return {
        name: without_snapshot(decode(TypedBytes(tag, bytes(data))))
        for name, (tag, data) in typed.items()
    }


def test_nothing_that_follows_from_writes_contradicts_them(filled: FilledStore) -> None:
    with open_store(filled.harness.url) as store:
        reports = replay_store(store)
    wrong = [
        (name, one.check.channel, one.transition.child)
        for name, about in reports.items()
        if name in PLAIN
        for one in about.findings
        if one.verdict is Verdict.MISMATCH
    ]
    assert wrong == []
    plain = [reports[name] for name in PLAIN if name in filled.threads]
    matched = sum(one.verdicts.get(Verdict.MATCH, 0) for one in plain)
    assert filled.harness.newest_values_only or matched > 5


def test_a_rollback_adds_a_child_with_the_targets_state(filled: FilledStore) -> None:
    before = filled.harness.fingerprint()
    target = rows(filled, "chat")[1]
    words = ("rollback", "chat", target["checkpoint_id"], "--yes")
    if filled.harness.newest_values_only:
        ckpt("-s", filled.harness.url, *words, code=4, says="newest checkpoint only")
    else:
        done = told(filled, *words)
        assert done["parent_checkpoint_id"] == target["checkpoint_id"]
        steps = [step_of(one["checkpoint_id"]) for one in (target, done)]
        assert steps[1] == (steps[0] or 0) + 1, "the id of a copy must hold its step"
        head = told(filled, "show", "chat")
        assert head["checkpoint_id"] == done["checkpoint_id"]
        assert [one["id"] for one in head["values"]["messages"]] == [
            one["id"] for one in target["values"]["messages"]
        ]
        assert (
            told(filled, "undo", "chat", "--yes")["head"]
            == rows(filled, "chat")[0]["checkpoint_id"]
        )
    assert filled.harness.fingerprint() == before
