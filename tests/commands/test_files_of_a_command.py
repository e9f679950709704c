"""A command runs through few files, so that a person can follow it from the parser to the store."""

import subprocess
import sys
from pathlib import Path
from shutil import copy

import pytest

from tests.kit.command import SAMPLE

PROGRAM = """
import os, sys
import ckpt_cli
from ckpt_cli.run import run

root, files = os.path.dirname(ckpt_cli.__file__), set()

def seen(frame, event, argument):
    code = frame.f_code
    # Modules and classes run when they are imported, also if nothing of them is used.
    if event == "call" and code.co_filename.startswith(root) and code.co_name != "<module>":
        if code.co_flags & 2 or code.co_name.startswith("<"):
            files.add(code.co_filename)

run(["-s", sys.argv[1], *sys.argv[3:]])  # imports what the command needs
sys.setprofile(seen)
code = run(["-s", sys.argv[2], *sys.argv[3:]])
sys.setprofile(None)
print(code, *sorted(os.path.relpath(one, root) for one in files), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("words", "most"),
    [
        ("threads list", 23),
        ("show trip-to-kyoto --tree", 31),
        ("diff trip-to-kyoto --writes", 29),
        ("replay trip-to-kyoto --verify", 31),
        ("rollback --match trip-* --at ~1 --yes", 46),
        ("purge --keep-last 2 --yes", 29),
        ("erase trip-to-kyoto --yes", 40),
    ],
)
def test_a_command_runs_through_few_files(words: str, most: int, tmp_path: Path) -> None:
    stores = [tmp_path / "first.db", tmp_path / "second.db"]
    for one in stores:
        copy(SAMPLE, one)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, stores), *words.split()],
        capture_output=True,
        text=True,
        check=False,
    )
    code, *files = done.stderr.splitlines()[-1].split()
    assert code == "0", done.stderr
    assert 10 < len(files) <= most, files
