"""What is put on the package index: the wheel, the sdist, and the page made of the README. With
only Python, two commands lead from there to the tree of a store: by pip, by pipx and by uv.
"""

import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Callable
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from time import monotonic
from zipfile import ZipFile

import pytest

from ckpt_cli import __version__
from ckpt_cli.app import root
from tests.kit.command import ROOT, SAMPLE

pytestmark = pytest.mark.release
LINK = re.compile(r"\]\(([^)\s]+)|(?:src|srcset|href)=\"([^\"\s]+)")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist of the tree, and the wheel that is built from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "-q", "--installer", "uv"]
    subprocess.run([*command, "--outdir", str(folder), str(ROOT)], check=True)
    return folder


@pytest.fixture(scope="module")
def project() -> dict[str, str]:
    """The URLs of the project."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    urls: dict[str, str] = settings["project"]["urls"]
    return urls


def _wheel(folder: Path) -> ZipFile:
    (found,) = folder.glob("*.whl")
    return ZipFile(found)


@pytest.fixture(scope="module")
def metadata(dist: Path) -> Message:
    with _wheel(dist) as wheel:
        (name,) = (one for one in wheel.namelist() if one.endswith(".dist-info/METADATA"))
        return message_from_bytes(wheel.read(name))


def test_the_index_accepts_it_and_the_sdist_holds_what_a_wheel_is_built_from(dist: Path) -> None:
    both = sorted(map(str, dist.iterdir()))
    assert len(both) == 2
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *both], check=True)
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {one.partition("/")[2] for one in archive.getnames()}
    tops = {one.partition("/")[0] for one in names}
    files = {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "PKG-INFO", ".gitignore"}
    files.add("hatch_build.py")
    assert tops == files | {"ckpt_cli", "backends", "share"}
    assert {f"ckpt_cli/completions/{one}" for one in ("ckpt.bash", "_ckpt", "ckpt.fish")} < names


def test_a_wheel_from_the_sdist_is_a_wheel_from_the_tree(dist: Path, tmp_path: Path) -> None:
    # Alone, `build` makes the sdist first, and the wheel of it.
    command = [sys.executable, "-m", "build", "-q", "--installer", "uv", "--wheel"]
    subprocess.run([*command, "--outdir", str(tmp_path), str(ROOT)], check=True)
    with _wheel(dist) as one, _wheel(tmp_path) as other:
        assert one.namelist() == other.namelist()
        assert [name for name in one.namelist() if one.read(name) != other.read(name)] == []


def test_a_wheel_holds_manuals_completions_and_no_test(dist: Path) -> None:
    with _wheel(dist) as wheel:
        names = wheel.namelist()
    shared = {one.partition(".data/data/")[2] for one in names if ".data/" in one}
    commands = ["ckpt", *(f"ckpt {words}" for words, _ in root().walk())]
    assert shared == {f"share/man/man1/{words.replace(' ', '-')}.1" for words in commands} | {
        "share/bash-completion/completions/ckpt",
        "share/zsh/site-functions/_ckpt",
        "share/fish/vendor_completions.d/ckpt.fish",
        "share/ckpt/SKILL.md",
        "share/ckpt/prometheus/ckpt.rules.yml",
        "share/ckpt/grafana/ckpt.json",
        "share/ckpt/kubernetes/cronjob.yaml",
    }
    tops = {one.partition("/")[0] for one in names}
    assert {one for one in tops if "-" not in one} == {"ckpt_cli", "ckpt_backends"}
    # A manual names each option and exit code.
    for words, command in root().walk():
        with _wheel(dist) as wheel:
            (name,) = (
                n for n in wheel.namelist() if n.endswith(f"/ckpt-{words.replace(' ', '-')}.1")
            )
            text = wheel.read(name).decode().replace("\\-", "-")
        own = [one for one in command.params if one.rich_help_panel != "Global options"]
        missing = [name for one in own for name in one.opts if name[0] == "-" and name not in text]
        assert missing == [], words
    table = (ROOT / "docs" / "json.md").read_text("utf-8").partition("## Exit codes")[2]
    codes = re.findall(r"^\| (\d+) \|", table.partition("\n## ")[0], re.MULTILINE)
    assert re.findall(r"^\.TP\n\\fB(\d+)\\fR", text, re.MULTILINE) == codes


def test_links_pictures_and_urls_are_absolute_and_of_one_place(
    metadata: Message, project: dict[str, str]
) -> None:
    text = metadata.get_payload()
    assert isinstance(text, str)
    links = [markdown or html for markdown, html in LINK.findall(text)]
    owner = project["Source"].removeprefix("https://github.com/")
    bases = (
        f"https://raw.githubusercontent.com/{owner}/v{__version__}/",
        f"https://github.com/{owner}/blob/v{__version__}/",
    )
    used = set()
    for link in links:
        assert link.startswith(("https://", "#")), link
        for base in bases:
            if link.startswith(base):
                used.add(base)
                path = link.removeprefix(base).partition("#")[0]
                assert (ROOT / path).exists(), link
    assert used == set(bases)
    # The urls of the project are of one place.
    shown = dict(one.split(", ", 1) for one in metadata.get_all("Project-URL", []))
    assert shown == project
    assert set(shown) == {"Homepage", "Documentation", "Changelog", "Issues", "Source"}
    place = project["Source"]
    assert re.fullmatch(r"https://github\.com/[\w-]+/[\w-]+", place)
    assert all(f"{url}/".startswith(f"{place}/") for url in shown.values())
    for url in shown.values():
        _, _, path = url.partition("/main/")
        assert (ROOT / path).exists(), url


# Installing

TOOLS = Path(sys.executable).parent
PACKAGE = "langgraph-ckpt"
SHOW = "-s agent.db show --tree"
SECONDS = 15
"""In which a stranger has a first answer, with everything downloaded."""
SETTINGS = ("PIP_", "UV_", "SSL_CERT_")
"""How this machine reaches the package index."""

Shell = Callable[[str], str]


@pytest.fixture
def shell(tmp_path: Path, dist: Path) -> Shell:
    """Runs a command in a home without settings, with a store and an empty environment of Python.

    The package comes from the folder of the built wheel, what it requires from the index.
    """
    shutil.copyfile(SAMPLE, tmp_path / "agent.db")
    settings = {key: one for key, one in os.environ.items() if key.startswith(SETTINGS)}
    links = {"PIP_FIND_LINKS": str(dist), "UV_FIND_LINKS": str(dist)}
    programs = f"{tmp_path}/venv/bin:{tmp_path}/.local/bin:/usr/bin:/bin"

    def run(command: str) -> str:
        answer = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env={**settings, **links, "HOME": str(tmp_path), "PATH": programs},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    return run


def shows_tree(printed: str) -> bool:
    return printed.startswith("thread trip-to-kyoto ") and "● f169" in printed


@pytest.mark.parametrize(
    "install",
    [
        f"pip install {PACKAGE}",
        f"{TOOLS}/pipx install {PACKAGE}",
        f"{TOOLS}/uv tool install {PACKAGE}",
    ],
    ids=["pip", "pipx", "uv"],
)
def test_two_commands_lead_to_the_tree_of_a_store(install: str, shell: Shell) -> None:
    if install.startswith("pip "):
        shell(f"{sys.executable} -m venv venv")
    shell(install)
    assert shows_tree(shell(f"ckpt {SHOW}"))
    assert shell("ckpt --version").split()[-1] == __version__


@pytest.mark.parametrize("run", ["pipx run", "uvx"])
def test_one_command_does_it_without_installing(run: str, shell: Shell) -> None:
    begun = monotonic()
    found = shell(f"{TOOLS}/{run} {PACKAGE}")
    took = monotonic() - begun
    assert "./agent.db  8 threads" in found
    # pipx lets uvx do it, where it finds uv.
    assert re.search(rf"^  (?:{run}|uvx) {PACKAGE} -s ./agent.db threads list", found, re.MULTILINE)
    assert took < SECONDS
    assert shows_tree(shell(f"{TOOLS}/{run} {PACKAGE} {SHOW}"))


# The moving picture of the README

_MADE_ANEW = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]+|\b[0-9a-f]{4,8}\b|\d\d:\d\d:\d\d|\w+ \d+ \w+ \d{4}"
)
"""What differs from run to run: the ids of new checkpoints, and when the graph went on."""


def _shown(picture: str) -> list[str]:
    texts = re.findall(r"<text [^>]*>([^<]*)</text>", picture)
    return [_MADE_ANEW.sub("*", one) for one in texts]


def test_it_is_what_the_commands_print_today_and_small() -> None:
    program = runpy.run_path(str(ROOT / "share" / "picture" / "record.py"))
    stored = program["TARGET"].read_text("utf-8")
    assert len(stored) < 1_500_000
    shown = _shown(stored)
    assert "book: Ryokan Yachiyo is booked from 7 April" in "\n".join(shown)
    assert _shown(program["record"]()) == shown
