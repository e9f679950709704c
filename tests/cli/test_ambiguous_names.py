"""A name that is both a profile and a file is refused; `./NAME` is always the file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.kit.command import SAMPLE, ckpt


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a trusted profile `prod`, which is a store of eight threads."""
    shutil.copyfile(SAMPLE, tmp_path / "real.db")
    (tmp_path / "ckpt.toml").write_text(
        'default = "prod"\n[stores.prod]\nurl = "real.db"\nretention = "1m"\n'
        '[stores.other]\nurl = "real.db"\nmemory = "prod"\n'
    )
    monkeypatch.chdir(tmp_path)
    assert ckpt("trust", "--yes").code == 0
    return tmp_path


def threads(*words: str) -> int:
    found: int = len(ckpt(*words, "threads", "list", "-o", "json").json)
    return found


def test_a_file_named_like_a_profile_is_not_chosen(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copyfile(SAMPLE, folder / "prod")
    before = (folder / "prod").read_bytes()
    for words in (
        ["-s", "prod", "threads", "list"],
        ["-s", "prod", "purge", "--expired", "--yes"],
        ["-s", "prod", "stores"],
        ["-s", "real.db", "show", "trip-to-kyoto", "--memory", "prod"],
    ):
        answer = ckpt(*words)
        assert answer.code == 2
        assert "cannot tell which store 'prod' is" in answer.err
        assert "hint: `-s ./prod` is the file" in answer.err
    monkeypatch.setenv("CKPT_STORE", "prod")
    assert "cannot tell which store 'prod' is" in ckpt("threads", "list").err
    assert (folder / "prod").read_bytes() == before


def test_the_file_has_no_retention_of_the_profile(folder: Path) -> None:
    shutil.copyfile(SAMPLE, folder / "prod")
    assert threads("-s", "./prod") == 8
    refused = ckpt("-s", "./prod", "purge", "--expired", "--yes")
    assert (refused.code, "--expired needs to know" in refused.err) == (2, True)
    assert threads("-s", "./prod") == 8


def test_a_name_in_the_configuration_is_its_profile(folder: Path) -> None:
    (folder / "prod").write_text("not a database, and not meant")
    assert threads() == 8
    answer = ckpt("-s", "other", "show", "trip-to-kyoto")
    assert f"no long-term memory in '{folder}/real.db'" in answer.err
    found = {one["name"]: one for one in ckpt("stores", "-o", "json").json}
    assert found["prod"]["layout"] == "sqlite"
    assert ckpt("purge", "--expired", "--yes", "-o", "json").json["threads"] != []


def test_the_profile_is_chosen_in_another_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copyfile(SAMPLE, folder / "prod")
    (folder / "deep").mkdir()
    monkeypatch.chdir(folder / "deep")
    assert threads("-s", "prod") == 8


def test_a_folder_without_a_store_is_not_meant(folder: Path) -> None:
    (folder / "prod").mkdir()
    assert threads("-s", "prod") == 8
    (folder / "prod" / ".langgraph_api").mkdir()
    assert "cannot tell which store 'prod' is" in ckpt("-s", "prod", "threads", "list").err


def test_a_link_to_nothing_is_a_file(folder: Path) -> None:
    os.symlink("gone.db", folder / "prod")
    assert "cannot tell which store 'prod' is" in ckpt("-s", "prod", "threads", "list").err
