"""Threads of LangGraph.js, copied between its stores, read as LangGraph.js read the originals."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from ckpt_backends.registry import open_store
from ckpt_backends.testing.conformance.comparison import Known, check_thread
from ckpt_cli.reading.thread import TriggerInference
from tests.kit.command import FIXTURES, ckpt, copy_store
from tests.kit.pairs import JAVASCRIPT, JAVASCRIPT_PAIRS, Places
from tests.kit.stores import restore_rows

FOLDER = FIXTURES / "js-1.7.3"
TWO_BRANCHES = ("fork-", "delta-fork-")
"""LangGraph.js gives equal versions to the values of two branches, which only bodies can hold."""
NOT_AS_JSON = {"zoo-bytes", "zoo-undefined", "zoo-numbers", "delta-often"}
"""Values that not every store of LangGraph.js has in the same form."""
# LangGraph.js takes the answer to one of two questions for the task's output.
KNOWN = Known(waiting={"interrupt-second": ["ask"]})
Filled: TypeAlias = Callable[[str], AbstractContextManager[tuple[str, dict[str, Any]]]]


@pytest.fixture
def filled(places: Places, tmp_path: Path) -> Filled:
    """Return a function that yields the URL of a store of LangGraph.js, and its truth."""

    @contextmanager
    def store(layout: str) -> Iterator[tuple[str, dict[str, Any]]]:
        if layout == "sqlite":
            truth = json.loads((FOLDER / "truth.json").read_text("utf-8"))["threads"]
            yield str(copy_store(FOLDER / "store.db", tmp_path)), truth
            return
        with places(JAVASCRIPT[layout]) as harness:
            if layout == "postgres":
                restore_rows(FOLDER / "postgres.jsonl.gz", harness.url)
                truth = json.loads((FOLDER / "postgres.truth.json").read_text("utf-8"))["threads"]
            else:
                harness.restore_recording()
                truth = harness.recorded_truth()
            yield harness.url, truth

    return store


@pytest.mark.in_ci("sqlite to redis-js", "mongodb-js to")
@pytest.mark.parametrize(("source", "target"), JAVASCRIPT_PAIRS)
def test_a_thread_of_javascript_reads_as_it_was(
    source: str, target: str, filled: Filled, places: Places
) -> None:
    with filled(source) as (url, truth), places(JAVASCRIPT[target]) as place:
        words = ["copy", "--all", "--to", place.url, "--create", "--yes", "-o", "json"]
        done = ckpt("-s", url, *words)
        assert done.code in {0, 7}, done.err
        report = json.loads(done.out)
        assert report["verified"]
        skipped = {one["thread_id"]: one["reason"] for one in report["skipped"]}
        lacking = {
            one
            for one in skipped
            if place.accepts_thread_id(one)
            and not one.startswith(TWO_BRANCHES)
            and not (source == "langgraph-dev-js" and "in an order" in skipped[one])
        }
        assert lacking <= NOT_AS_JSON | place.skipped_scenarios, skipped
        failures: list[str] = []
        # No other store has the order in which parallel writes arrived.
        loses_order = JAVASCRIPT[source].writes_by_arrival
        with open_store(place.url) as store:
            assert store.describe().layout == target
            inference = TriggerInference(store)
            for thread_id, thread in truth.items():
                if thread_id in skipped or (loses_order and "delta" in thread_id):
                    continue
                try:
                    check_thread(store, thread_id, thread, KNOWN, inference)
                except AssertionError as error:
                    failures.append(str(error)[:400])
        assert not failures, "\n\n".join(failures)
