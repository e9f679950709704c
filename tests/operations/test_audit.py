"""`--audit FILE`: a chain of hashes of all changes, and what `ops verify` finds in it."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from tests.kit.command import CommandResult, ckpt
from tests.kit.rows import rows_of

TRIP = "trip-to-kyoto"


def roll_back(store: Path, audit: Path, *more: str) -> CommandResult:
    words = ("rollback", TRIP, "--steps", "1", "--yes", *more)
    return ckpt("-s", store, "--audit", audit, *words)


@pytest.fixture
def audit(sample: Path, tmp_path: Path) -> Path:
    """An audit file with three lines."""
    path = tmp_path / "audit.ndjson"
    assert roll_back(sample, path).code == 0
    assert ckpt("-s", sample, "--audit", path, "undo", TRIP, "--yes").code == 0
    assert roll_back(sample, path, "--reason", "again").code == 0
    return path


def test_each_change_is_a_line_that_names_the_hash_of_the_one_before(audit: Path) -> None:
    lines = audit.read_bytes().splitlines(keepends=True)
    records = [json.loads(line) for line in lines]
    assert [one["action"] for one in records] == ["rollback", "undo", "rollback"]
    assert records[0]["prev"] == "0" * 64
    for line, record in zip(lines, records[1:], strict=False):
        assert record["prev"] == hashlib.sha256(line).hexdigest()
    assert audit.stat().st_mode & 0o777 == 0o600
    answer = ckpt("ops", "verify", audit, "-o", "json").json
    assert (answer["lines"], answer["broken"]) == (3, None)
    assert answer["head"] == hashlib.sha256(lines[-1]).hexdigest()


def test_a_changed_or_missing_line_breaks_the_chain(audit: Path) -> None:
    kept = audit.read_bytes()
    lines = kept.splitlines(keepends=True)
    for changed, broken in (
        (kept.replace(b'"undo"', b'"fork"'), 3),
        (b"".join((lines[0], lines[2])), 2),
        (b"".join(lines[1:]), 1),
    ):
        audit.write_bytes(changed)
        found = ckpt("ops", "verify", audit, "-o", "json")
        assert found.code == 1
        assert found.json["broken"]["line"] == broken


def test_a_known_hash_finds_lines_that_were_cut_off(audit: Path) -> None:
    kept = audit.read_bytes()
    head = ckpt("ops", "verify", audit, "-o", "json").json["head"]
    assert ckpt("ops", "verify", audit, "--head", head).code == 0
    audit.write_bytes(b"".join(kept.splitlines(keepends=True)[:2]))
    unnoticed = ckpt("ops", "verify", audit)
    assert unnoticed.code == 0
    assert "only --head HASH" in unnoticed.err
    assert ckpt("ops", "verify", audit, "--head", head).code == 1


def test_a_torn_line_is_named_and_the_chain_goes_on(sample: Path, audit: Path) -> None:
    audit.write_bytes(audit.read_bytes() + b'{"ckpt_operation": 1')
    assert roll_back(sample, audit).code == 0
    found = ckpt("ops", "verify", audit, "-o", "json")
    assert (found.code, found.json["torn"], found.json["lines"]) == (0, [4], 5)


@pytest.mark.parametrize("kind", ["folder", "device", "link", "new link", "hard link", "shared"])
def test_nothing_is_changed_if_it_cannot_be_written(
    sample: Path, tmp_path: Path, kind: str
) -> None:
    path = {"folder": tmp_path, "device": Path("/dev/null")}.get(kind, tmp_path / kind)
    (tmp_path / "target").touch()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "hard link").hardlink_to(tmp_path / "target")
    (tmp_path / "new link").symlink_to(tmp_path / "made")
    (tmp_path / "shared").touch()
    (tmp_path / "shared").chmod(0o622)
    before = rows_of(sample)
    refused = roll_back(sample, path)
    assert (refused.code, rows_of(sample)) == (5, before)
    assert "nothing was written" in refused.err
    assert ckpt("ops", "list", "-o", "json").json == []
    assert (tmp_path / "target").read_bytes() == b""
    assert not (tmp_path / "made").exists()


def test_a_killed_change_is_appended_by_the_next_run(sample: Path, tmp_path: Path) -> None:
    path = tmp_path / "audit.ndjson"
    assert roll_back(sample, path).code == 0
    line = json.loads(path.read_bytes())
    folder = Path(os.environ["XDG_STATE_HOME"]) / "ckpt" / "operations"
    left = folder / "running" / f"{line['op']}.ndjson"
    (folder / "steps" / left.name).rename(left)
    path.unlink()
    ckpt("-s", sample, "ops", "list")
    assert json.loads(path.read_bytes())["op"] == line["op"]
    assert not left.exists()


def test_a_profile_names_the_file_if_its_configuration_is_trusted(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "ckpt.toml"
    config.write_text(f'[stores.agent]\nurl = "{sample.name}"\naudit = "audit.ndjson"\n')
    monkeypatch.chdir(tmp_path)
    words = ("rollback", TRIP, "--steps", "1", "--yes")
    refused = ckpt("-s", "agent", *words)
    assert refused.code == 2
    assert "sets 'audit'" in refused.err
    assert ckpt("-s", "agent", "--config", config, *words).code == 0
    assert len((tmp_path / "audit.ndjson").read_bytes().splitlines()) == 1
    verified = ckpt("-s", "agent", "--config", config, "ops", "verify", "-o", "json")
    assert verified.json["lines"] == 1
