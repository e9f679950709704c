"""The code of docs/develop/adapters.md is a working adapter: the conformance suite passes on it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.command import ROOT

DOCUMENT = ROOT / "docs" / "develop" / "adapters.md"
FILES = re.compile(r"```python\n(# (\S+\.py)\n.*?)```", re.DOTALL)
ADDED = re.compile(r"^BACKEND = Backend\(\.\.\., (.*)\)$", re.MULTILINE)
"""What the document adds to the declaration, line by line."""
_QUICK = " and ".join(
    f"not test_{one}" for one in ("screen", "matrix", "sql", "changes", "secrets")
)
IMPORTED = "from ckpt_backends.transfer.form import Form\n"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with the code of the document, and the metadata of an installed package."""
    text = DOCUMENT.read_text()
    for code, name in FILES.findall(text):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(code)
    declaration = tmp_path / "ckpt_acme" / "declaration.py"
    lines = text.splitlines(keepends=True)
    added = [f"    {one},\n" for one in ADDED.findall(text)]
    for name in ("changes", "forms", "records"):
        assert sum(f'{name}="ckpt_acme.' in one or f'{name}={{"acme"' in one for one in added) == 1
    assert IMPORTED in lines
    first = declaration.read_text().replace(
        "from ckpt_backends.model", f"{IMPORTED}from ckpt_backends.model", 1
    )
    declaration.write_text(first.replace("    checkpoints=", f"{''.join(added)}    checkpoints="))
    (tmp_path / "ckpt_acme" / "__init__.py").touch()
    metadata = tmp_path / "ckpt_acme-0.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: ckpt-acme\nVersion: 0.1\n")
    (entry,) = re.findall(r"^acme = \"(.*)\"$", text, re.MULTILINE)
    (metadata / "entry_points.txt").write_text(f"[ckpt.backends]\nacme = {entry}\n")
    shutil.copy(Path(__file__).parent / "acme_saver.py", tmp_path / "tests")
    return tmp_path


def run(package: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in the folder of the package, with the settings of the document."""
    settings = "\n".join(
        re.findall(
            r"^(?:pythonpath|addopts|ckpt_harnesses) = .*$", DOCUMENT.read_text(), re.MULTILINE
        )
    )
    (package / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\n{settings}\n")
    path = os.pathsep.join([str(package), str(ROOT), str(ROOT / "backends")])
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
        cwd=package,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["--ckpt-few", "-k", _QUICK], id="few", marks=pytest.mark.nightly),
        pytest.param([], id="all", marks=pytest.mark.release),
    ],
)
def test_the_suite_passes_on_the_code_of_the_document(package: Path, words: list[str]) -> None:
    done = run(package, "-rs", *words)
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout
    skipped = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    why = ("keeps no values apart", "rows get no other values")
    assert all(line.endswith(why) for line in skipped), skipped


def test_the_example_is_short() -> None:
    files = (ROOT / "examples" / "ckpt-duckdb").rglob("*.py")
    assert 0 < sum(len(path.read_text().splitlines()) for path in files) <= 300
