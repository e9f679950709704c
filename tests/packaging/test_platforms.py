"""Reading, planning and changing need nothing that only some systems have."""

import re
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.kit.command import ROOT
from tests.packaging.portable import FEW
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


@pytest.mark.parametrize(
    "tests",
    [
        pytest.param(FEW, id="a change and its undo"),
        pytest.param((), id="all that Windows runs", marks=pytest.mark.nightly),
    ],
)
def test_it_works_without_what_only_some_systems_have(tests: Sequence[str]) -> None:
    command = [sys.executable, "-m", "tests.packaging.portable", "--hidden", "-q", *tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
