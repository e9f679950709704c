"""Replays of threads, for the handles."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.api.answer import Answer, AnswerList
from ckpt_cli.api.surroundings import Surroundings
from ckpt_cli.api.watch import Watcher
from ckpt_cli.core.replay.elimination import Judgement
from ckpt_cli.core.replay.reducer_options import known_reducers
from ckpt_cli.core.replay.report import Place, Replayed, ReplayReport, judge_all, report
from ckpt_cli.queries.replay import replay_thread
from ckpt_cli.queries.replay_all import check_channels, replay_threads
from ckpt_cli.render.replay import report_record, thread_rows, transition_rows
from ckpt_cli.threads.thread import ThreadReader

if TYPE_CHECKING:
    from ckpt_cli.threads.executor.executor import Executor


class JudgedThread(NamedTuple):
    """A thread that was replayed, with the reducers of its channels."""

    found: Replayed
    judgements: Mapping[Place, Judgement]

    def report(self) -> Answer[ReplayReport]:
        """Return the verdicts, as `ckpt replay` prints them."""
        return Answer(report(self.found, self.judgements), report_record)

    def transitions(self) -> AnswerList[JudgedThread]:
        """Return each channel of each transition, as `ckpt replay --all-steps` prints them."""
        return AnswerList(self, lambda one: transition_rows(one.found, one.judgements))


def reducers_of(around: Surroundings, told: Mapping[str, str] | None) -> dict[str, str]:
    """Return the reducers of the profile and those that are told, which win.

    Raises `UsageError` for an unknown reducer.
    """
    return known_reducers({**around.names.reducers, **(told or {})})


def reducers_for(
    reader: ThreadReader,
    around: Surroundings,
    told: Mapping[str, str] | None,
    channels: Collection[str] = (),
) -> dict[str, str]:
    """Return the same for a thread.

    Also raises `NotFound` if the thread has not all channels that are told or given.
    """
    reducers = reducers_of(around, told)
    names = {*(told or ()), *channels}
    check_channels(reader.store, [reader.thread_id], names, f"thread '{reader.thread_id}'")
    return reducers


def replay_one(
    reader: ThreadReader,
    around: Surroundings,
    told: Mapping[str, str] | None,
    ns: str | None = None,
    upto: str | None = None,
) -> JudgedThread:
    """Replay a thread, one namespace of it, or the steps up to one checkpoint there.

    Raises `NotFound` for an unknown channel, and `UsageError` for an unknown reducer.
    """
    reducers = reducers_for(reader, around, told)
    ((found, judgements),) = judge_all([replay_thread(reader, ns, upto)], reducers)
    return JudgedThread(found, judgements)


def replay_several(
    store: Store,
    around: Surroundings,
    threads: Iterable[Thread],
    told: Mapping[str, str] | None,
    executor: Executor,
    watch: Watcher,
) -> Iterator[Answer[ReplayReport]]:
    """Yield the report on each thread; those that contradict themselves come last.

    Raises what `replay_one` raises, at once.
    """
    reducers = reducers_of(around, told)
    if told:
        threads = list(threads)
        check_channels(store, (one.thread_id for one in threads), told, "these threads")
    judged = judge_all(watch(replay_threads(store, executor, threads)), reducers)
    return (Answer(report(*one), thread_rows) for one in judged)
