"""Reading, planning and changing need nothing that only some systems have."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.command import ROOT
from tests.kit.rows import rows_of
from tests.unit.sources import texts

_ONLY_HERE = re.compile(
    r"^\s*(?:import|from) (?:fcntl|resource|pwd|grp|msvcrt)\b|[\"(]/proc/"
    r"|\bos\.(?:fork|geteuid|getuid|fchmod|fchown|statvfs|\w+xattr|O_NO\w+|O_DIRECTORY|O_CLOEXEC)\b"
    r"|\b(?:signal\.)?(?:SIGHUP|SIGKILL|pthread_sigmask\()",
    re.MULTILINE,
)


def test_one_module_knows_what_systems_have() -> None:
    sources = {**texts("ckpt_cli"), **texts("backends/ckpt_backends")}
    code = {
        path: re.sub(r'"""(?:.|\n)*?"""|#.*', "", text)
        for path, text in sources.items()
        if "/testing/" not in path
    }
    found = {path for path, text in code.items() if _ONLY_HERE.search(text)}
    assert found == {"backends/ckpt_backends/platform.py"}


HIDDEN = """
from tests.packaging.portable import hide
hide()
from ckpt_cli.__main__ import main
main()
"""


def test_a_change_and_its_undo_need_nothing_that_only_some_systems_have(sample: Path) -> None:
    def run(*words: str) -> None:
        command = [sys.executable, "-c", HIDDEN, "-s", str(sample), *words, "--yes"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    before = rows_of(sample)
    run("threads", "delete", "refund-4711", "--archive", str(sample.with_name("archive")))
    assert rows_of(sample) < before
    run("undo")
    assert rows_of(sample) == before


@pytest.mark.nightly
def test_all_that_windows_runs_works_without_it() -> None:
    command = [sys.executable, "-m", "tests.packaging.portable", "--hidden", "-q"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
