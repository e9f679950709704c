"""An erasure that is killed at any moment is finished by the next run."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from tests.erase.person import CANARY, THREADS
from tests.erase.test_erase import SUBJECT, Home, use
from tests.kit.command import ckpt
from tests.kit.kill.calls import run_until

ERASE = ("-s", "a", "erase", *SUBJECT, "--yes", "-o", "json", "--no-mentions")


@pytest.fixture(params=[6, pytest.param(200, marks=pytest.mark.slow)])
def times(request: pytest.FixtureRequest) -> int:
    """How often the erasure is killed."""
    return int(request.param)


def test_the_next_run_finishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    place, full = tmp_path / "place", tmp_path / "full"
    place.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    monkeypatch.chdir(place)
    home = Home(place)
    use(home)
    # An archive that holds the person's items and another's.
    assert home.run("memory", "delete", "--match", "*", "--archive", "backups", "--yes").code == 0
    assert home.run("undo", "--yes").code == 0
    shutil.copytree(place, full)
    calls = run_until(ERASE)
    assert calls > 1000
    dice = random.Random(times)
    killed = 0
    for number in range(times):
        for one in place.iterdir():
            shutil.rmtree(one) if one.is_dir() else one.unlink()
        shutil.copytree(full, place, dirs_exist_ok=True)
        moment = calls * number // times + dice.randrange(calls // times) + 1
        killed += not run_until(ERASE, moment)
        again = ckpt(*ERASE, "--receipt", "receipt.json")
        assert again.code == 0, (moment, again.err)
        left = home.everything()
        for name in (CANARY, *THREADS, "a secret"):
            assert name.encode() not in left, (moment, name)
        assert json.loads((place / "receipt.json").read_text())["complete"] is True
        assert ckpt("-s", "a", "erase", "--verify", "receipt.json").code == 0, moment
    assert killed > times * 0.9
