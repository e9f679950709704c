"""`langgraph dev` itself, started on files that `ckpt` changed.

Its environment is made with pip in a cache folder; `-m release` runs this.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.kit.command import FIXTURES, ckpt, era_python

pytestmark = pytest.mark.release

NEW, OLD = "runtime-0.36.7", "runtime-0.2.1"
"""The old one, of 2025, stored the user of a request in the metadata, which made it a pickle."""


@pytest.mark.parametrize("era", [NEW, OLD])
def test_the_server_resumes_a_fork_and_misses_what_was_removed(era: str, tmp_path: Path) -> None:
    folder = tmp_path / ".langgraph_api"
    shutil.copytree(FIXTURES / "dev" / era, folder)
    os.utime(folder / ".langgraph_ops.pckl", (0, 0))
    truth = json.loads((folder / "truth.json").read_text("utf-8"))["threads"]
    asking, answered, forked = (
        next(thread for thread, one in truth.items() if one["name"] == name)
        for name in ("asking", "answered", "forked")
    )
    back = ckpt("-s", folder, "rollback", answered, "~2", "--yes", "-o", "json").json
    assert ckpt("-s", folder, "threads", "delete", asking, "--yes").code == 0
    said = resumed(era, folder, answered)
    assert said["state"]["checkpoint_id"] == back["checkpoint_id"]
    assert said["state"]["next"] == back["next"] == ["inner"]
    assert said["state"]["values"] == truth[answered]["history"][2]["values"]
    assert said["ended"]["items"][-1] == "that"
    there = {one["checkpoint_id"]: one["values"] for one in said["history"]}
    before = {one["checkpoint_id"]: one["values"] for one in truth[answered]["history"]}
    assert before.items() <= there.items()
    assert len(there) == len(before) + 3
    assert said["threads"][asking] == 0
    assert said["threads"][forked] == len(truth[forked]["history"])


def resumed(era: str, folder: Path, thread_id: str, *options: str) -> Any:
    """What the server says of a thread with which it went on."""
    script = FIXTURES / "make" / "dev_server.py"
    line: list[Any] = [era_python(era, "dev"), script, folder, "--resume", thread_id, "that"]
    done = subprocess.run([*line, *options], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return json.loads(done.stdout)
