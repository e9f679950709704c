"""LangGraph.js itself asks the second question again after `ckpt repair writes`."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.kit.command import ckpt

SCRIPT = Path(__file__).parent / "asks.mjs"
CONFIG = {"thread_id": "t"}

pytestmark = pytest.mark.slow


@pytest.fixture
def library(langgraph_js: Path) -> Path:
    """A folder with the script."""
    shutil.copy(SCRIPT, langgraph_js)
    return langgraph_js


def run(library: Path, verb: str, url: str, config: dict[str, str], word: str = "") -> Any:
    done = subprocess.run(
        ["node", SCRIPT.name, verb, url, json.dumps(config), word],
        cwd=library,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_second_question_is_asked_again(library: Path, postgres_url: str) -> None:
    assert run(library, "drive", postgres_url, CONFIG)["asked"] == ["second?"]
    done = ckpt("-s", postgres_url, "repair", "writes", "t", "--yes", "-o", "json")
    assert done.code == 0, done.err
    config = done.json["configurable"]
    assert run(library, "resume", postgres_url, config)["asked"] == ["second?"]
    answer = run(library, "answer", postgres_url, config, "no")
    assert answer["log"] == ["yes and no", "paid"]
    assert answer["ran"] == ["ask"]
