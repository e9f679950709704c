"""A command runs through few files, so that a person can follow it from the parser to the store."""

import sys
from inspect import CO_NEWLOCALS
from pathlib import Path
from shutil import copy
from types import FrameType
from typing import Any

import ckpt_cli
from tests.kit.cases import cases
from tests.kit.command import SAMPLE, ckpt

FOLDER = Path(ckpt_cli.__file__).parent


def files_of(*words: str | Path) -> set[str]:
    """Run a command line, and return the files of which a function ran."""
    files = set()

    def see(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        # Modules and classes run when they are imported, also if nothing of them is used.
        if (
            event == "call"
            and code.co_name != "<module>"
            and code.co_filename.startswith(str(FOLDER))
            and (code.co_flags & CO_NEWLOCALS or code.co_name.startswith("<"))
        ):
            files.add(code.co_filename)

    sys.setprofile(see)
    done = ckpt(*words)
    sys.setprofile(None)
    assert done.code == 0, done.err
    return {Path(one).relative_to(FOLDER).as_posix() for one in files}


@cases(
    "words most",
    ("threads list", 25),
    ("show trip-to-kyoto --tree", 32),
    ("diff trip-to-kyoto --writes", 30),
    ("replay trip-to-kyoto --verify", 32),
    ("rollback --match trip-* --at ~1 --yes", 46),
    ("purge --keep-last 2 --yes", 30),
    ("erase trip-to-kyoto --yes", 40),
)
def test_a_command_runs_through_few_files(words: str, most: int, tmp_path: Path) -> None:
    for name in ("first.db", "second.db"):
        copy(SAMPLE, tmp_path / name)
    # The first imports what the command needs.
    assert ckpt("-s", tmp_path / "first.db", *words.split()).code == 0
    files = files_of("-s", tmp_path / "second.db", *words.split())
    assert 10 < len(files) <= most, files
