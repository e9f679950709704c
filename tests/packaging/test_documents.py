"""Documents say what the program does: each example is run, each reference made anew."""

import re
import shlex
import tomllib
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import ckpt_cli
from ckpt_cli.app import root
from tests.kit.command import ROOT, SAMPLE, ckpt, copy_store, program

README = ROOT / "README.md"


@pytest.fixture(scope="module")
def generate() -> Any:
    """The program that writes what documents quote."""
    return program("docs/generate.py")


@pytest.mark.parametrize("name", ["README.md", "docs/tour.md", "docs/incidents.md"])
def test_console_blocks_are_what_the_commands_print(name: str, generate: Any) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert "```console" in text
    assert generate.tour(text) == text


def test_the_tour_names_every_command() -> None:
    text = (ROOT / "docs" / "tour.md").read_text("utf-8").replace("-s sample.db ", "")
    assert [name for name in root().commands if f"ckpt {name}" not in text] == []


def test_the_readme_has_one_command_to_try_and_one_to_test() -> None:
    text = README.read_text("utf-8")
    for mark in ("try", "tests"):
        found = re.findall(rf"<!-- {mark} -->\n```sh\n(.*?)```\n<!-- end -->", text, re.DOTALL)
        assert len(found) == 1
        assert len(found[0].splitlines()) == 1


def test_the_readme_answers_each_question_by_a_command(sample: Path) -> None:
    """Each runs on the sample, with a thread and a channel in place of the words in capitals."""
    found = re.findall(r"^- \*\*.+\?\*\* `ckpt (.+?)`", README.read_text("utf-8"), re.MULTILINE)
    assert len(found) == 5
    for command in found:
        words = command.replace("THREAD", "trip-to-kyoto").replace("CHANNEL", "hotel").split()
        confirmed = ["--yes"] if words[0] == "rollback" else []
        answer = ckpt("-s", sample, *words, *confirmed)
        assert answer.code == 0, (command, answer.err)
        assert answer.out


def test_the_command_reference_is_up_to_date(generate: Any) -> None:
    assert generate.TARGET.read_text("utf-8") == generate.reference()
    for path, made in (
        (generate.STORES, generate.stores),
        (generate.CHECKS, generate.checks),
        (generate.SCREEN, generate.screen),
        (generate.COPIES, generate.copies),
        (generate.KEYS, generate.keys),
    ):
        text = path.read_text("utf-8")
        assert made(text) == text
    stored = {path.name: path.read_text("utf-8") for path in generate.SCHEMAS.iterdir()}
    assert stored == generate.schemas()


def test_documents_are_pages_of_the_site_and_their_links_lead_somewhere() -> None:
    """`docs/build_site.py`, which `.ci/run` runs, checks their anchors, too."""
    documents = [*(ROOT / "docs").rglob("*.md")]
    for path in (*ROOT.glob("*.md"), *documents):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text("utf-8")):
            assert (path.parent / target).exists(), (path.name, target)
    pages = re.findall(r"^ +- (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    names = sorted(str(path.relative_to(ROOT / "docs")) for path in documents)
    assert [name for name in names if name not in pages] == []


def test_the_version_is_the_same_everywhere_and_what_it_needs_is_allowed() -> None:
    assert version("langgraph-ckpt") == ckpt_cli.__version__
    # The library needs no langgraph and no release with a known advisory.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert not any("lang" in name for name in project["dependencies"])
    needs = list(map(Requirement, chain.from_iterable(project["optional-dependencies"].values())))
    # The last release that an advisory names.
    for package, last in (("aiohttp", "3.14.3"), ("distributed", "2025.12.0")):
        (need,) = (one for one in needs if one.name == package)
        assert not need.specifier.contains(last)


def test_the_code_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    copy_store(SAMPLE, tmp_path).rename(tmp_path / "sample.db")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith("invoice-import ['extract_lines', 'match_supplier'] ")


# The skill for agents


FOR = {
    "THREAD@REF": "trip-to-kyoto@~1",
    "THREAD": "trip-to-kyoto",
    "PATH": "hotel",
    "TEXT": "Kyoto",
}
SKILL = (ROOT / "share" / "ckpt" / "SKILL.md").read_text("utf-8")


def test_the_skill_names_commands_that_exist_and_run_on_the_sample() -> None:
    named = {line.split()[1] for line in re.findall(r"`(ckpt [a-z][^`]*)`", SKILL)}
    assert named - root().commands.keys() == set()
    # The commands of the skill run on the sample.
    ran = 0
    for line in re.findall(r"^\| [^|]+ \| (`ckpt .*) \|$", SKILL, re.MULTILINE):
        for words in re.findall(r"`ckpt ([^`]*)`", line):
            if words.startswith(("memory", "stores")):  # the sample has no memory
                continue
            given = re.sub("|".join(FOR), lambda found: FOR[found.group()], words)
            answer = ckpt("-s", SAMPLE, *shlex.split(given))
            assert answer.code in {0, 1}, (given, answer.err)
            ran += 1
    assert ran > 15
