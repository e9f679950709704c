"""What a store of any layout receives, it reads back part for part."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.errors import StoreChanged
from ckpt_backends.model import Kind
from ckpt_backends.open_for_writing import create_store
from ckpt_backends.registry import open_store
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.transfer.copying import Arrival
from ckpt_backends.transfer.form import Language
from ckpt_backends.url import parse_url
from tests.copy.round_trip import (
    check_round_trip,
    half,
    in_order,
    newest_of,
    receive,
    records_for,
    stored_records,
)
from tests.kit.pairs import PYTHON, Places, creating, form_of

FEW = ("interrupt-nested", "fanout-send", "two\nlines")
"""Threads for DynamoDB, whose test server takes 10 ms of CPU time for each request."""
PARALLEL = {"fanout-send", "error-parallel", "delta-often", "subgraph-stateful"}
"""Threads of which kagent cannot hold all writes: it has room for those of one task."""


def url_of(place: Harness) -> str:
    """The URL of a store that may be empty, of which Redis does not tell the layout."""
    return f"{place.url}?layout={place.name}" if place.name in {"redis", "valkey"} else place.url


LAYOUTS = [
    pytest.param(one, marks=() if one == "langgraph-dev" else pytest.mark.engines)
    for one in PYTHON
    if one.partition("-")[0] != "three" and form_of(one).receives
]


@pytest.fixture
def place(request: pytest.FixtureRequest, places: Places) -> Iterator[Harness]:
    """An empty store of each layout that can receive threads."""
    with places(PYTHON[request.param]) as made:
        if creating(made):
            create_store(parse_url(made.url), Language.PYTHON)
        yield made


@pytest.mark.parametrize("place", LAYOUTS, indirect=True)
def test_what_is_received_is_read_back_record_for_record(scenes: Path, place: Harness) -> None:
    names = {*FEW} if place.name == "dynamodb" else {*SCENARIOS} - place.skipped_scenarios
    left_out = PARALLEL if place.name == "kagent" else set()
    for name in check_round_trip(scenes, url_of(place), place.name, names - left_out):
        config: Any = {"configurable": {"thread_id": name}}
        with quiet(), place.saver() as saver:
            assert SCENARIOS[name].build(saver).get_state(config).values, name


@pytest.mark.parametrize(
    "place", [one for one in LAYOUTS if one.values != ("kagent",)], indirect=True
)
def test_a_thread_that_went_on_gets_the_rest_and_only_that(scenes: Path, place: Harness) -> None:
    thread, url = "fanout-send", url_of(place)
    records = records_for(scenes, place.name, thread)
    early, late = half(records)
    # One more write at a checkpoint that is there with other writes.
    writes = [one for one in early if one.kind is Kind.WRITE]
    again = next(one for one in writes if [other.key for other in writes].count(one.key) > 1)
    early.remove(again)
    late.append(again)
    receive(url, Arrival(thread, early))
    newest = newest_of(early)
    for heads in ({}, {"": "another"}):
        with pytest.raises(StoreChanged):
            receive(url, Arrival(thread, late, heads))
    assert read_back(url, thread) == in_order(early)
    receive(url, Arrival(thread, late, {"": newest}))
    assert read_back(url, thread) == in_order(records)
    with open_store(url) as store:
        found = store.thread(thread)
        assert found is not None
        assert found.head == newest_of(records) > newest
        assert list(store.thread_faults(thread)) == []


def read_back(url: str, thread_id: str) -> list[Any]:
    with open_store(url) as store:
        return in_order(stored_records(store, thread_id))
