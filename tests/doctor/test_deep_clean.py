"""The deep checks find nothing in stores that savers of any era wrote, and no fault befell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.test_replay_of_eras import with_engines
from tests.doctor.sweeping import places, sweep_url
from tests.restore import (
    restore,
    restore_documents,
    restore_javascript_documents,
    restore_keys,
    restore_rows,
)
from tests.support import FIXTURES, copy_store, eras

SHARED = {
    "js-0.2.74": {
        ("branches-share-value", "fork-update", "items"),
        ("branches-share-value", "fork-chat", "messages"),
    },
    "js-1.7.3": {("branches-share-value", "fork-asking", "items")},
}
"""LangGraph.js on PostgreSQL does not store what the later of two branches wrote, as the truth of
the fixtures says."""


@pytest.mark.parametrize("folder", list(eras()), ids=lambda path: path.name)
def test_nothing_is_found_in_an_era(folder: Path, tmp_path: Path) -> None:
    assert sweep_url(str(copy_store(folder / "store.db", tmp_path))) == ([], {})


@pytest.mark.parametrize("folder", with_engines("postgres", "lg-0.2.70"))
def test_nothing_is_found_on_postgresql(folder: Path, postgres_url: str) -> None:
    restore(folder / "store.sql.gz", postgres_url)
    assert sweep_url(postgres_url) == ([], {})


@pytest.mark.parametrize("folder", with_engines("redis", "lg-1.0.10"))
def test_nothing_is_found_on_redis(folder: Path, redis_stack_url: str) -> None:
    restore_keys(folder / "store.jsonl.gz", redis_stack_url)
    assert sweep_url(redis_stack_url) == ([], {})


@pytest.mark.parametrize("folder", with_engines("mongodb", "lg-1.0.10"))
def test_nothing_is_found_on_mongodb(folder: Path, mongodb_url: str) -> None:
    restore_documents(folder / "store.bson.gz", mongodb_url)
    assert sweep_url(mongodb_url) == ([], {})


@pytest.mark.parametrize(
    "era",
    [
        pytest.param("js-0.2.74", marks=pytest.mark.slow),
        pytest.param("js-1.7.3", marks=pytest.mark.engines),
    ],
)
def test_only_shared_values_are_found_of_langgraph_js_on_postgresql(
    era: str, postgres_url: str
) -> None:
    restore_rows(FIXTURES / era / "postgres.jsonl.gz", postgres_url)
    found, unchecked = sweep_url(postgres_url)
    assert (places(found), unchecked) == (SHARED[era], {})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["redis", "redis-shallow"])
def test_nothing_is_found_of_langgraph_js_on_redis(name: str, redis_stack_url: str) -> None:
    restore_keys(FIXTURES / "js-1.7.3" / f"{name}.jsonl.gz", redis_stack_url)
    assert sweep_url(redis_stack_url) == ([], {})


@pytest.mark.slow
def test_nothing_is_found_of_langgraph_js_on_mongodb(mongodb_url: str) -> None:
    restore_javascript_documents(FIXTURES / "js-1.7.3" / "mongodb.bson.gz", mongodb_url)
    assert sweep_url(mongodb_url) == ([], {})
