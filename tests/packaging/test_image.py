"""The image, its jobs, and what a Dockerfile and a CronJob say of them."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ckpt_cli import __version__
from tests.kit.command import ROOT, ckpt

DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
BUILD, IMAGE = re.split(r"^FROM .*$", DOCKERFILE, flags=re.MULTILINE)[1:]


def containers() -> Iterator[Any]:
    """The containers of the jobs."""
    for one in yaml.safe_load_all((ROOT / "share/kubernetes/cronjob.yaml").read_text("utf-8")):
        if one["kind"] == "CronJob":
            yield from one["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]


def test_the_jobs_run_the_image_of_this_release_and_change_nothing_in_it() -> None:
    found = list(containers())
    assert len(found) == 2
    for one in found:
        assert one["image"].rpartition(":")[2] == __version__
        assert one["securityContext"]["readOnlyRootFilesystem"] is True
    assert "USER 10001\n" in IMAGE


def test_the_commands_of_the_jobs_do_what_they_say(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, purge = (one["args"] for one in containers())
    monkeypatch.setenv("CKPT_STORE", str(sample))
    # The sample's failure is older than an hour.
    ckpt(*check, code=0)
    ckpt(*(one.replace("1h", "100y") for one in check), code=1)
    archives = tmp_path / "archives"
    words = [one.replace("/archives", str(archives)).replace("90d", "1s") for one in purge]
    before = len(ckpt("threads", "list", "--all", "-o", "tsv").out.splitlines())
    ckpt(*words, code=0)
    removed = len(list(archives.iterdir()))
    assert len(ckpt("threads", "list", "--all", "-o", "tsv").out.splitlines()) == before - removed


@pytest.mark.release
def test_its_steps_make_a_program_that_writes_nothing_of_it(tmp_path: Path, sample: Path) -> None:
    source, target = tmp_path / "src", tmp_path / "opt"
    source.mkdir()
    for words in re.findall(r"^COPY (?!--from)(.*)$", BUILD, re.MULTILINE):
        *names, where = words.split()
        for name in names:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, source / where)
            else:
                shutil.copy(ROOT / name, source / where)
    (step,) = re.findall(r"^RUN (.*)$", BUILD, re.MULTILINE)
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    step = step.replace("/opt/ckpt", str(target))
    subprocess.run(["sh", "-ec", step], cwd=source, env={**os.environ, "PATH": path}, check=True)
    before = {one: one.stat().st_mtime_ns for one in target.rglob("*")}
    settings = dict(re.findall(r"(\w+)=(\S+)", IMAGE.partition("\nENV ")[2].partition("\n")[0]))
    state = tmp_path / "state"
    places = {"PATH": f"{target}/bin:/usr/bin:/bin", "XDG_STATE_HOME": str(state)}
    done = subprocess.run(
        ["ckpt", "-s", str(sample), "rollback", "trip-to-kyoto", "--steps", "1", "--yes"],
        env={**settings, **places},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert any(state.rglob("*.ndjson"))
    assert {one: one.stat().st_mtime_ns for one in target.rglob("*")} == before
