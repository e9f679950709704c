"""Documents say what the program does: each example is run, each reference made anew."""

import os
import re
import shlex
import shutil
import subprocess
import sys
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
        assert (len(found), len(found[0].splitlines())) == (1, 1)


def test_the_readme_answers_each_question_by_a_command(sample: Path) -> None:
    """Each runs on the sample, with a thread and a channel in place of the words in capitals."""
    found = re.findall(r"^- \*\*.+\?\*\* `ckpt (.+?)`", README.read_text("utf-8"), re.MULTILINE)
    assert len(found) == 5
    for command in found:
        words = command.replace("THREAD", "trip-to-kyoto").replace("CHANNEL", "hotel").split()
        confirmed = ["--yes"] if words[0] == "rollback" else []
        assert ckpt("-s", sample, *words, *confirmed, code=0).out


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


# The code of docs/develop/adapters.md is a working adapter: the conformance suite passes on it


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
