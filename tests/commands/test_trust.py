"""`trust` on the command line; what an unknown file may not do is tested in tests/security."""

from pathlib import Path

import pytest

from tests.commands.words import refusals
from tests.kit.command import ckpt


def test_it_is_trusted_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "ckpt.toml"
    file.write_text('[stores.x]\nurl = "redis://127.0.0.1:1/0"\n')
    used = ("-s", "x", "threads", "list")
    assert "is not trusted" in ckpt(*used).err
    asked = ckpt("trust")
    assert (asked.code, "confirmation needed" in asked.err) == (5, True)
    assert (ckpt("trust", "--yes").code, ckpt(*used).code) == (0, 4)
    file.write_text(file.read_text() + "# changed\n")
    assert "changed since it was trusted" in ckpt(*used).err


test_wrong_words_are_refused = refusals(
    ("trust", 2, "no configuration file in this folder or above it"),
    ("trust none.toml", 2, "none.toml': no such file"),
)
