"""The answers to three questions over the official history of each thread of a SQLite store."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from time import perf_counter, process_time
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver

from tests.bench.agent import build

TOOL = "weather"
"""The tool that is asked for."""


def _states(saver: SqliteSaver) -> Iterator[tuple[str, Any]]:
    graph = build(saver)
    threads = saver.conn.execute("SELECT DISTINCT thread_id FROM checkpoints").fetchall()
    for (thread_id,) in threads:
        for state in graph.get_state_history({"configurable": {"thread_id": thread_id}}):
            yield thread_id, state


def bytes_of_channels(saver: SqliteSaver) -> dict[str, int]:
    """Return the bytes that tasks wrote to each channel of the state."""
    found: Counter[str] = Counter()
    for _, state in _states(saver):
        for task in state.tasks:
            for channel, value in (task.result or {}).items():
                found[channel] += len(saver.serde.dumps_typed(value)[1])
    return dict(found)


def tokens_by_day(saver: SqliteSaver) -> dict[str, int]:
    """Return the tokens of each model and day, each message once, on the day it came first."""
    first: dict[tuple[str, str], tuple[str, str, int]] = {}
    for thread_id, state in _states(saver):
        for message in state.values.get("messages", ()):
            usage = getattr(message, "usage_metadata", None)
            if usage:
                model = message.response_metadata.get("model_name", "")
                day = str(state.created_at)[:10]
                first[thread_id, message.id] = (model, day, usage["total_tokens"])
    found: Counter[str] = Counter()
    for model, day, tokens in first.values():
        found[f"{model} {day}".lstrip()] += tokens
    return dict(found)


def threads_that_called(saver: SqliteSaver) -> list[str]:
    """Return the threads in which a message ever called the tool, sorted."""
    return sorted(
        {
            thread_id
            for thread_id, state in _states(saver)
            for message in state.values.get("messages", ())
            if any(call["name"] == TOOL for call in getattr(message, "tool_calls", ()))
        }
    )


def main(url: str, question: str) -> None:
    """Print the answer as JSON, then the seconds and CPU seconds that it took."""
    with SqliteSaver.from_conn_string(url) as saver:
        seconds, cpu = perf_counter(), process_time()
        print(json.dumps(globals()[question](saver)))
        print(perf_counter() - seconds, process_time() - cpu)
