"""`replay --verify` beside the official reading of the same thread; prints checkpoints a second."""

from __future__ import annotations

import json
import sys
import sysconfig
from pathlib import Path

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from tests.bench.measure import Figure, compared, interleaved, memory, run, table
from tests.replay.planting import THREAD, talk
from tests.support import ROOT

pytestmark = pytest.mark.bench

CKPT = Path(sysconfig.get_path("scripts")) / "ckpt"
TURNS = 200
OFFICIAL = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from langgraph.checkpoint.sqlite import SqliteSaver
from tests.replay.planting import graph
with SqliteSaver.from_conn_string(sys.argv[1]) as saver:
    for state in graph(saver).get_state_history({{"configurable": {{"thread_id": {THREAD!r}}}}}):
        pass
"""


def test_verifying_is_as_fast_as_reading(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(store)) as saver:
        talk(saver, turns=TURNS)
    verify: list[str | Path] = [CKPT, "-s", store, "replay", THREAD, "--verify", "-o", "json"]
    out = tmp_path / "answer.json"
    run(verify, out=out)
    found = json.loads(out.read_bytes())
    assert found["match"] == found["transitions"] == 5 * TURNS
    runs = interleaved({"ckpt": verify, "official": [sys.executable, "-c", OFFICIAL, store]}, 3)
    for name, one in runs.items():
        print(f"\n{name}: {5 * TURNS / one.least:.0f} checkpoints a second", end="")
    figures: list[Figure] = [
        compared("replay --verify", runs["ckpt"], "get_state_history", runs["official"], 1.0),
        memory("replay --verify", runs["ckpt"].mib, 150),
    ]
    print(f"\n\n{table(figures)}")
