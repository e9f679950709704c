"""A backend of another package appears wherever a bundled one does, with the package on the path as
`pip` would install it."""

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ckpt_backends.plugins import plugins
from ckpt_backends.testing import plugin
from tests.kit.cases import cases
from tests.kit.command import ROOT, SAMPLE, CommandResult, ckpt, fork
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.terminal import in_terminal

_DECLARATION = """
from ckpt_backends.declaration import NAME, Backend
from ckpt_backends.model import Capability

BACKEND = Backend(
    title="Toy", layouts={"toy": Capability.HISTORY | Capability.INLINE_VALUES}, schemes=("toy",),
    params={"box": NAME}, is_local=True, claims_path=lambda path: path.endswith(".toy"),
    file_names=("*.toy",), checkpoints="ckpt_toy_store:open_store",
)
"""
_STORE = """
from ckpt_backends.sqlite import store as sqlite
from ckpt_backends.url import parse_url

class ToyStore(sqlite.SqliteStore):
    def describe(self):
        return super().describe()._replace(layout="toy")

def open_store(url):
    made = sqlite.open_store(parse_url(f"sqlite:///{url.path}"))
    made.__class__ = ToyStore
    return made
"""
_Run = Callable[..., CommandResult]


def install(folder: Path, package: str, **places: str) -> None:
    """Make a package known with entry points for these backends, by name."""
    info = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = "".join(f"{name} = {place}\n" for name, place in places.items())
    (info / "entry_points.txt").write_text(f"[ckpt.backends]\n{lines}")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with packages: the toy's, and nothing else."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "ckpt_toy.py").write_text(_DECLARATION)
    (folder / "ckpt_toy_store.py").write_text(_STORE)
    install(folder, "ckpt-toy", toy="ckpt_toy:BACKEND")
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a store of the toy's layout, and a SQLite file."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name in ("trip.toy", "agent.db"):
        shutil.copyfile(SAMPLE, folder / name)
    return folder


@pytest.fixture
def run(site: Path, project: Path) -> _Run:
    """Runs `ckpt` in the project, with the packages installed."""
    plugins.cache_clear()

    def answer(words: Sequence[str], writing: int) -> None:
        os.chdir(project)
        sys.path.insert(0, str(site))
        done = ckpt(*words)
        with os.fdopen(writing, "wb") as file:
            pickle.dump((done.code, done.raw, done.err), file)

    def run(*words: str) -> CommandResult:
        reading, writing = os.pipe()
        child = fork(partial(answer, words, writing))
        os.close(writing)
        with os.fdopen(reading, "rb") as file:
            told = file.read()
        assert os.waitpid(child, 0)[1] == 0
        return CommandResult(*pickle.loads(told))

    return run


def _of_layout(found: list[dict[str, Any]], name: str | None) -> dict[str, Any]:
    (row,) = (one for one in found if one["layout"] == name and one["package"] != "langgraph-ckpt")
    return row


@pytest.mark.parametrize("name", ["trip.toy", "toy:///trip.toy?box=b"])
def test_its_stores_are_read_and_not_changed(run: _Run, name: str) -> None:
    assert len(run("-s", name, "threads", "list", "-o", "json").json) == 8
    assert run("-s", name, "show", "trip-to-kyoto@~1", "-o", "json").json["step"] == 11
    refused = run("-s", name, "threads", "delete", "trip-to-kyoto", "--yes")
    assert (refused.code, refused.err) == (4, "ckpt: 'toy://' stores are read-only\n")


def test_it_is_named_where_others_are(run: _Run, project: Path) -> None:
    answer = run("stores", "-o", "json")
    found = {one["name"]: one["layout"] for one in answer.json}
    assert found == {"agent.db": "sqlite", "trip.toy": "toy"}
    assert "warning" not in answer.err
    assert run("_complete", "store", "to", "", "", "", "").out == "toy://\tToy\n"
    assert "refund-4711\tthread\n" in run("_complete", "thread", "", "trip.toy", "", "", "").out
    assert "sqlite://, toy://" in run("-s", "nosuch://x", "threads", "list").err
    answer = run("-s", "toy:user:secret@host", "threads", "list")
    assert (answer.code, "secret" in answer.err) == (2, False)
    (project / "ckpt.toml").write_text('[stores.mine]\nurl = "trip.toy"\n')
    assert run("-s", "mine", "threads", "list").code == 0
    (project / "ckpt.toml").write_text('[stores.mine]\nurl = "toy:////etc/x.toy"\n')
    refused = run("-s", "mine", "threads", "list")
    assert (refused.code, "names a file outside its folder" in refused.err) == (2, True)


def test_its_layout_is_listed_with_what_it_supports(run: _Run) -> None:
    found = run("stores", "--layouts", "-o", "json").json
    row = _of_layout(found, "toy")
    assert (row["backend"], row["package"], row["schemes"]) == ("Toy", "ckpt-toy", ["toy"])
    assert (row["file_names"], row["capabilities"]) == (["*.toy"], ["history", "inline_values"])
    assert (row["commands"]["history"], row["commands"]["interrupts"]) == ("yes", "none")
    assert {row["commands"][one] for one in ("rollback", "purge", "threads delete")} == {"no"}
    assert (row["notes"], "needs" in row) == ([], False)
    bundled = {one["layout"] for one in found if one["package"] == "langgraph-ckpt"}
    assert {"sqlite", "postgres", "redis", None} <= bundled
    text = run("stores", "--layouts", "-o", "table").out
    assert "ckpt-toy" in text
    assert "langgraph-ckpt" not in text


def test_a_missing_driver_or_function_is_named_with_its_package(run: _Run, site: Path) -> None:
    text = _DECLARATION.replace("is_local=", "driver='nosuch', extra='box', is_local=")
    (site / "ckpt_toy.py").write_text(text)
    answer = run("-s", "trip.toy", "threads", "list")
    assert answer.code == 2
    assert answer.err.endswith("hint: install it: pip install 'ckpt-toy[box]'\n")
    found = run("stores", "--layouts", "-o", "json").json
    assert _of_layout(found, "toy")["needs"] == "ckpt-toy[box]"
    (site / "ckpt_toy.py").write_text(text.replace("extra='box', ", ""))
    hint = run("-s", "trip.toy", "threads", "list").err
    assert hint.endswith("hint: install it: pip install ckpt-toy\n")
    (site / "ckpt_toy.py").write_text(_DECLARATION)
    (site / "ckpt_toy_store.py").write_text("import nosuch_driver")
    answer = run("-s", "trip.toy", "threads", "list")
    assert answer.code == 4
    assert answer.err == (
        "ckpt: cannot open 'trip.toy': backend 'Toy' of package ckpt-toy cannot be loaded:"
        " ModuleNotFoundError: No module named 'nosuch_driver'\n"
    )


_BROKEN = "backend 'duck' of package ckpt-duck cannot be loaded: "


def test_80_columns_show_packages_and_problems(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), str(ROOT)]))
    (site / "duck.py").write_text("import nosuch_driver")
    install(site, "ckpt-duck", duck="duck:BACKEND")
    words = ["-m", "ckpt_cli", "--no-pager", "stores", "--layouts"]
    code, text = in_terminal([sys.executable, *words], width=80, height=200)
    header, *lines = text.splitlines()
    assert (code, {"LAYOUT", "BACKEND", "SCHEMES", "PACKAGE"} <= set(header.split())) == (0, True)
    table = [one for one in lines if "warning: " not in one]
    assert max(map(len, [header, *table])) <= 80
    assert any(one.split() == ["duck", "ckpt-duck"] for one in table), text
    assert any(one.startswith("toy ") and "ckpt-toy" in one for one in table), text
    assert f"{_BROKEN}ModuleNotFoundError: No module named 'nosuch_driver'" in text


def test_a_broken_package_is_listed_and_named_where_one_looks_for_it(
    run: _Run, site: Path, project: Path
) -> None:
    (site / "duck.py").write_text("raise ValueError('\\x1b[31mred')")
    install(site, "ckpt-duck", duck="duck:BACKEND")
    (project / "a.duck").write_text("not a store of any kind")
    said = _BROKEN + "ValueError: \\x1b[31mred"
    counted = "1 plug-in cannot be loaded: run `ckpt stores --layouts`\n"
    listed = run("stores", "-o", "json")
    assert (len(listed.json), f"warning: {said}\n" in listed.err) == (2, True)
    fix = "hint: fix or remove it: pip uninstall ckpt-duck\n"
    for name, code, start, end in (
        ("duck:///a.duck", 2, f"ckpt: cannot open 'duck://': {said}\n", fix),
        ("goose:///a.duck", 2, "ckpt: cannot open 'goose://': unknown kind of store\n", counted),
        ("a.duck", 4, "ckpt: cannot open 'a.duck': not a SQLite database\n", counted),
    ):
        answer = run("-s", name, "threads", "list")
        assert (answer.code, answer.err.endswith(end)) == (code, True), answer.err
        assert answer.err.startswith(start)
    wrong = "BACKEND = Backend(title='Duck', schemes=('Duck',), checkpoints='duck.open')"
    for source, problem in (
        ("raise SystemExit('no\\nway')", "SystemExit: no way"),
        (
            f"from ckpt_backends.declaration import Backend\n{wrong}",
            "wrong declaration: scheme 'Duck' must consist of a-z, 0-9, +, . and -, without ://;"
            " checkpoints 'duck.open' must have the form module:function",
        ),
    ):
        (site / "duck.py").write_text(source)
        row = _of_layout(run("stores", "--layouts", "-o", "json").json, None)
        assert (row["backend"], row["package"], row["error"]) == ("duck", "ckpt-duck", problem)
    # What works is not disturbed.
    assert run("-s", "trip.toy", "threads", "list").err == ""
    assert run("-s", "agent.db", "threads", "list").err == ""


def test_a_bundled_backend_wins(run: _Run, site: Path) -> None:
    text = _DECLARATION.replace('("toy",)', '("toy", "sqlite")')
    (site / "ckpt_toy.py").write_text(text.replace('layouts={"toy"', 'layouts={"redis"'))
    (site / "ckpt_twin.py").write_text(_DECLARATION)
    install(site, "ckpt-twin", twin="ckpt_twin:BACKEND")
    assert run("-s", "sqlite:///agent.db", "threads", "list", "-o", "json").json
    found = run("stores", "--layouts", "-o", "json").json
    conflicts = [
        "SQLite opens sqlite://, not backend 'toy' (package ckpt-toy)",
        "layout name 'redis' of backend 'toy' (package ckpt-toy) is already used by Redis",
    ]
    assert _of_layout(found, "redis")["notes"] == conflicts
    for words in (["stores"], ["stores", "--layouts"]):
        warned = run(*words).err
        assert [one for one in conflicts if f"warning: {one}\n" not in warned] == []
    twice = "Toy opens toy://, not backend 'twin' (package ckpt-twin)"
    assert _of_layout(found, "toy")["notes"] == [twice]
    assert f"warning: {twice}\n" in run("stores").err


# The conformance suite, which `.ci/run` runs on the layout of `examples/ckpt-duckdb`


@cases(
    "name says",
    ("Nothing", "cannot import the harness 'ckpt_backends.testing.plugin:Nothing'"),
    ("SUITE", "is no subclass of ckpt_backends.testing.harness.Harness"),
    ("", "no layout to test: give --ckpt-harness MODULE:CLASS"),
)
def test_what_is_no_harness(name: str, says: str) -> None:
    named = [f"{plugin.__name__}:{name}"] if name else []
    config: Any = SimpleNamespace(getoption=lambda _: named, getini=lambda _: [])
    with pytest.raises(pytest.UsageError, match=says):
        plugin.pytest_ckpt_harnesses(config)


def test_a_server_that_nobody_starts() -> None:
    class ServerHarness(SqliteHarness):
        server = "toyserver"

    with pytest.raises(pytest.fail.Exception, match="no plug-in starts a server 'toyserver'"):
        plugin.pytest_ckpt_server(ServerHarness)


def test_ckpt_itself_does_not_load_the_suite() -> None:
    program = (
        "import sys, ckpt_cli.run; ckpt_cli.run.run(['stores', 'none.db']);"
        "sys.exit('ckpt_backends.testing' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
