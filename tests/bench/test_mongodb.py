"""How long listing takes on a MongoDB store of 100,000 checkpoints: `python -m pytest -m bench -s`.

The server is SecantusDB unless CKPT_TEST_MONGODB_URL names another one, so that the figures
compare ways to ask, not engines.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pymongo
import pytest

from ckpt_backends.checkpoint_ids import make_id
from ckpt_backends.mongodb import pipelines
from ckpt_backends.registry import open_store
from ckpt_backends.testing.official import drive
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from tests.support import ckpt

pytestmark = pytest.mark.bench

THREADS, EACH = 1000, 100
LISTED = 1000
"""The official saver asks for the writes of each checkpoint, so that only so many are listed."""


def seconds(run: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def test_listing_100000_checkpoints(mongodb_url: str) -> None:
    from langgraph.checkpoint.mongodb import MongoDBSaver

    name = mongodb_url.rpartition("/")[2]
    client: Any = pymongo.MongoClient(mongodb_url)
    saver = MongoDBSaver(client, name)
    drive(saver, SCENARIOS["chat"])
    checkpoints = client[name]["checkpoints"]
    like = checkpoints.find_one({}, {"_id": 0}, sort=[("checkpoint_id", -1)])
    saver.delete_thread("chat")
    first = 0x1F1E62958000000
    for number in range(THREADS):
        ids = [make_id(first + EACH * number + n, n, n) for n in range(EACH)]
        checkpoints.insert_many(
            {**like, "thread_id": f"thread-{number}", "checkpoint_id": one} for one in ids
        )
    (index,) = (one for one in checkpoints.index_information() if one != "_id_")

    def raw() -> None:
        assert len(list(checkpoints.aggregate(pipelines.threads({}, None), hint=index))) == THREADS

    def ours() -> None:
        with open_store(mongodb_url) as store:
            assert sum(1 for _ in store.threads()) == THREADS

    def command() -> None:
        assert len(ckpt("-s", mongodb_url, "threads", "list", "--all", "-o", "json").json) == 1000

    def official() -> None:
        assert sum(1 for _ in saver.list(None, limit=LISTED)) == LISTED

    print(f"\n{THREADS * EACH} checkpoints in {THREADS} threads")
    for what, run in (
        ("the raw aggregation", raw),
        ("Store.threads()", ours),
        ("ckpt threads list --all", command),
        (f"the official saver's list(limit={LISTED})", official),
    ):
        print(f"{what:40} {seconds(run):8.2f} s")
    client.close()
