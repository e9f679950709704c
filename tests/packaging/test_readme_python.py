"""The README's code runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kit.command import ROOT, SAMPLE, copy_store


def test_the_code_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    copy_store(SAMPLE, tmp_path).rename(tmp_path / "sample.db")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith("invoice-import ['extract_lines', 'match_supplier'] ")
