"""`replay --verify` and `doctor --deep` beside the official history, for each kind of state."""

from __future__ import annotations

import json
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.bench.make_steps import KINDS, make_steps
from tests.bench.measure import Figure, compared, interleaved, memory, run, table
from tests.support import ROOT

pytestmark = pytest.mark.bench

CKPT = Path(sysconfig.get_path("scripts")) / "ckpt"
STEPS = 1500
"""So many that starting a process is a small part of it."""
OFFICIAL = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.bench.make_steps import built, config_of, saver_of
with saver_of(sys.argv[1]) as saver:
    for state in built(saver, sys.argv[2]).get_state_history(config_of(sys.argv[2])):
        pass
"""


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_verifying_is_faster_than_the_history(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    is_file = engine == "sqlite"
    store = str(tmp_path / "store.db") if is_file else request.getfixturevalue("postgres_url")
    make_steps(store, STEPS)
    figures: list[Figure] = []
    for kind in KINDS:
        verify: list[str | Path] = [CKPT, "-s", store, "replay", kind, "--verify", "-o", "json"]
        deep: list[str | Path] = [CKPT, "-s", store, "doctor", kind, "--deep", "-o", "json"]
        out = tmp_path / "answer.json"
        run(verify, out=out)
        number = json.loads(out.read_bytes())["match"]
        assert number == STEPS + 2
        official = [sys.executable, "-c", OFFICIAL, store, kind]
        runs = interleaved({"replay": verify, "deep": deep, "official": official}, 3)
        for name, one in runs.items():
            each = f"{number / one.least:.0f} ({number / one.cpu:.0f} of CPU time)"
            print(f"\n{engine}, {kind}, {name}: {each} checkpoints a second", end="")
        figures += [
            compared(f"replay {kind}", runs["replay"], "history", runs["official"], 1.0),
            compared(f"doctor --deep {kind}", runs["deep"], "history", runs["official"]),
            memory(f"replay {kind}", runs["replay"].mib, 150),
        ]
    print(f"\n\n{table(figures)}")
