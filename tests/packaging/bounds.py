"""Runs the tests with the oldest and with the newest releases that pyproject.toml allows.

`python -m tests.packaging.bounds --resolution lowest-direct --python 3.11 -- -n auto tests/unit`

Each run has a new environment, which uv makes. Without `--python`, it runs on every version of the
classifiers; one that this machine does not have is left out, and the summary says so. Without
`--resolution`, it runs the oldest and the newest releases. What follows `--` is for pytest; without
it, pytest runs the default tests.

The savers, with which the tests fill stores, ask for newer drivers than `ckpt` does. What `ckpt`
requires overrides what they ask for, so that the tests run at its own bounds.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.kit.command import ROOT

RESOLUTIONS = ("lowest-direct", "highest")
_FAST_TIER = ("-q", "-n", "auto", "--dist", "loadgroup")
_CLASSIFIER = "Programming Language :: Python :: 3."
_PINNED_TESTS = (
    "--deselect",
    "tests/screen/test_panes.py::test_the_screen_looks_as_in_its_picture",
)
"""The pictures of the screen are right for one release of Textual."""


def supported() -> list[str]:
    """The versions of Python that the classifiers name, such as `3.11`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [
        f"3.{one.removeprefix(_CLASSIFIER)}"
        for one in project["classifiers"]
        if one.startswith(_CLASSIFIER)
    ]


def find_python(version: str) -> str | None:
    """The path of an interpreter of this version on this machine. Downloads none."""
    environment = dict(os.environ)
    if shutil.which("pyenv"):
        found = _output("pyenv", "versions", "--bare", "--skip-aliases")
        environment["PYENV_VERSION"] = ":".join(found.split())
    answer = subprocess.run(
        ["uv", "python", "find", "--no-python-downloads", version],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout.strip() or None


def run_tests(python: str, resolution: str, words: Sequence[str]) -> str:
    """Make an environment, and run pytest in it. Return `passed`, `failed`, or why it did not."""
    interpreter = find_python(python)
    if interpreter is None:
        return "left out, this Python is not installed"
    with TemporaryDirectory() as name:
        tests = _environment(Path(name), interpreter, resolution)
        command = [tests, "-m", "pytest", "-p", "no:cacheprovider", *_PINNED_TESTS, *words]
        is_passed = subprocess.run(command, cwd=ROOT, check=False).returncode == 0
    return "passed" if is_passed else "failed"


def _environment(folder: Path, interpreter: str, resolution: str) -> str:
    """Install the tree and its tests in this folder. Return the Python of the environment."""
    python, releases = str(folder / "venv" / "bin" / "python"), str(folder / "releases.txt")
    _output("uv", "venv", "--quiet", "--python", interpreter, str(folder / "venv"))
    _output(
        *("uv", "pip", "compile", "--quiet", "pyproject.toml", "--extra", "all"),
        # An override replaces a requirement, also its extras.
        *("--no-strip-extras", "--no-annotate", "--no-header"),
        *("--python", python, "--resolution", resolution, "--output-file", releases),
    )
    _output(
        *("uv", "pip", "install", "--quiet", "--python", python),
        *("--override", releases, "--editable", ".[test]"),
    )
    return python


def _output(*command: str) -> str:
    """What a command prints on stdout. Its errors go to stderr."""
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.packaging.bounds")
    parser.add_argument("--python", action="append", metavar="VERSION", help="such as 3.11")
    parser.add_argument("--resolution", action="append", choices=RESOLUTIONS)
    parser.add_argument("words", nargs="*", metavar="-- PYTEST ARGUMENTS")
    given = parser.parse_args()
    results: dict[str, str] = {}
    for python in given.python or supported():
        for resolution in given.resolution or RESOLUTIONS:
            name = f"Python {python}, {resolution}"
            print(f"== {name}", flush=True)
            results[name] = run_tests(python, resolution, given.words or _FAST_TIER)
    print(*(f"{name}: {result}" for name, result in results.items()), sep="\n")
    found = {*results.values()}
    return 0 if "passed" in found and "failed" not in found else 1


if __name__ == "__main__":
    sys.exit(main())
