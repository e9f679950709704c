"""Two `ckpt` processes that write the same file, or the same memory, at the same moment."""

import json
from pathlib import Path

import pytest

from tests.kit.command import ckpt
from tests.kit.processes import at_once, leftovers
from tests.kit.rows import change

TIMES = [1, pytest.param(10, marks=pytest.mark.nightly)]


@pytest.mark.parametrize("times", TIMES)
def test_a_sample_is_whole(tmp_path: Path, times: int) -> None:
    for number in range(times):
        path = tmp_path / f"{number}.db"
        both = at_once(["demo", path], ["demo", path])
        assert 0 in [one.code for one in both], both
        assert ckpt("-s", path, "replay", "--all", "--verify").code == 0
        assert leftovers(tmp_path) == []


@pytest.mark.engines
@pytest.mark.parametrize("times", TIMES)
def test_archives_and_plans_are_whole(sample: Path, times: int) -> None:
    folder = sample.parent / "archive"
    plan = sample.parent / "plan"
    export = ["-s", str(sample), "export", "--to", str(folder), "--", "trip-to-kyoto"]
    plan_out = ["-s", str(sample), "purge", "--older-than", "0s", "--plan-out", str(plan)]
    for _ in range(times):
        at_once(export, export, plan_out, plan_out)
        for archive in folder.iterdir():
            answer = ckpt("-s", sample, "import", archive, "--dry-run")
            assert answer.code in {0, 6}, answer.err  # the thread is there
        assert ckpt("-s", sample, "apply", plan, "--dry-run").code == 0
        assert leftovers(sample.parent) == []


@pytest.mark.parametrize("times", TIMES)
def test_a_plan_is_carried_out_once(sample: Path, tmp_path: Path, times: int) -> None:
    before = sample.read_bytes()
    for number in range(times):
        store = tmp_path / f"{number}.db"
        store.write_bytes(before)
        plan = tmp_path / f"plan{number}"
        policy = ["--older-than", "0s", "--include-pending", "--include-error"]
        assert ckpt("-s", store, "purge", *policy, "--plan-out", plan).code == 0
        wanted = ["-s", str(store), "apply", str(plan), "--skip-changed", "--yes", "-o", "json"]
        both = at_once(wanted, wanted)
        removed = sum(json.loads(one.out)["removed"]["threads"] for one in both if one.code == 0)
        listed = json.loads(plan.read_text().splitlines()[0])
        assert listed["ckpt_plan"]
        going = [json.loads(line)["action"] for line in plan.read_text().splitlines()[1:]]
        assert removed == going.count("remove"), both
        assert change(store, "PRAGMA integrity_check") == [("ok",)]


def memory_file(folder: Path) -> Path:
    """DeerFlow's memory, with facts."""
    path = folder / "memory.json"
    facts = [{"id": f"f{n}", "content": f"fact {n}", "category": "x"} for n in range(5)]
    path.write_text(json.dumps({"version": "1.0", "facts": facts}))
    return path


def keys(memory: Path) -> set[str]:
    return {one["key"] for one in ckpt("-s", memory, "memory", "export", "-o", "json").json}


@pytest.mark.nightly
@pytest.mark.parametrize("times", TIMES)
def test_items_are_deleted_and_restored(tmp_path: Path, times: int) -> None:
    for number in range(times):
        folder = tmp_path / str(number)
        folder.mkdir()
        memory = memory_file(folder)
        before = keys(memory)
        command = ["-s", str(memory), "memory"]
        options = ["--archive", str(folder / "archive"), "--yes", "--write"]
        both = at_once(*([*command, "delete", name, *options] for name in ("f0", "f1", "f1")))
        gone = before - keys(memory)
        first, *seconds = both
        assert ("f0" in gone) == (first.code == 0), both
        assert ("f1" in gone) == (0 in [one.code for one in seconds]), both
        archives = sorted(map(str, (folder / "archive").iterdir()))
        restore = [*command, "import", *archives, "--yes", "--write"]
        at_once(restore, restore)
        assert keys(memory) == before
        assert leftovers(folder) == []


@pytest.mark.nightly
@pytest.mark.parametrize("times", TIMES)
def test_one_of_two_edits_stays(tmp_path: Path, times: int) -> None:
    memory = memory_file(tmp_path)
    edit = ["-s", str(memory), "memory", "edit", "f2", "--write", "--set"]
    for _ in range(times):
        both = at_once([*edit, "content=one"], [*edit, "content=two"])
        found = ckpt("-s", memory, "memory", "show", "f2", "-o", "json")
        done = [text for one, text in zip(both, ("one", "two"), strict=True) if one.code == 0]
        assert any(f'"{text}"' in found.out for text in done), both
