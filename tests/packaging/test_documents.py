"""Documents say what the program does: each example is run, each reference made anew."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from importlib.util import module_from_spec, spec_from_file_location

import pytest

import ckpt_cli
from ckpt_cli.app import COMMANDS
from tests.packaging.readme import README, toured
from tests.support import ROOT


def test_the_readmes_tour_is_what_the_commands_print() -> None:
    text = README.read_text("utf-8")
    assert toured(text) == text


def test_the_readme_names_every_command() -> None:
    text = README.read_text("utf-8").replace("-s sample.db ", "")
    assert [name for name in COMMANDS if f"ckpt {name}" not in text] == []


def test_the_readme_has_one_command_to_try_and_one_to_test() -> None:
    text = README.read_text("utf-8")
    for mark in ("try", "tests"):
        found = re.findall(rf"<!-- {mark} -->\n```sh\n(.*?)```\n<!-- end -->", text, re.DOTALL)
        assert len(found) == 1
        assert len(found[0].splitlines()) == 1


def test_the_command_reference_is_up_to_date() -> None:
    path = ROOT / "docs" / "generate.py"
    spec = spec_from_file_location("generate", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.TARGET.read_text("utf-8") == module.reference()
    text = module.STORES.read_text("utf-8")
    assert module.stores(text) == text
    text = module.SCREEN.read_text("utf-8")
    assert module.screen(text) == text


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "docs").glob("*.md")))
def test_every_document_is_linked(name: str) -> None:
    assert f"(docs/{name})" in README.read_text("utf-8")


def test_the_version_is_the_same_everywhere() -> None:
    assert version("langgraph-ckpt") == ckpt_cli.__version__


def test_the_library_needs_no_langgraph() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert not any("lang" in name for name in project["dependencies"])


def test_a_module_can_be_run() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ckpt_cli", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"ckpt {ckpt_cli.__version__}\n"
