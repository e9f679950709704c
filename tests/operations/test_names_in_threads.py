"""`show`, `history` and the tree name the operations that changed a thread."""

import os
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.testing.screen import Seat, sit
from tests.kit.command import ckpt

KYOTO = "trip-to-kyoto"


def run(store: Path, *words: str) -> Any:
    """Run a command that has JSON."""
    done = ckpt("-s", store, *words, "-o", "json")
    assert done.code == 0, done.err
    return done.json


@pytest.fixture
def rolled_back(sample: Path) -> Path:
    """The sample, with a thread that was rolled back for a reason."""
    run(sample, "rollback", KYOTO, "~2", "--yes", "--reason", "wrong\x1b[2J hotel")
    return sample


def test_a_checkpoint_that_was_added_names_its_operation(rolled_back: Path) -> None:
    (newest, *others) = run(rolled_back, "history", KYOTO)
    (listed,) = run(rolled_back, "ops", "list")
    named = newest["operation"]
    assert named == {
        **{name: listed[name] for name in ("op", "at", "user")},
        "action": "rollback",
        "reason": "wrong\x1b[2J hotel",
        "undone_by": None,
    }
    assert not any("operation" in one for one in others)
    assert "operations" not in run(rolled_back, "show", "--long", "refund-4711")
    (tree, *_) = run(rolled_back, "show", KYOTO, "--tree")
    assert tree["operation"] == named
    (shown,) = run(rolled_back, "show", "--long", KYOTO)["operations"]
    assert shown == named


def test_people_read_its_id_and_reason(rolled_back: Path) -> None:
    (listed,) = run(rolled_back, "ops", "list")
    drawn = ckpt("-s", rolled_back, "show", KYOTO, "--tree").out
    assert f"  rollback {listed['op'][:8]}: wrong\\x1b[2J hotel\n" in drawn
    shown = ckpt("-s", rolled_back, "show", KYOTO).out
    assert f"{listed['op']}  rollback, " in shown
    (undo,) = [line.split("ckpt ", 1)[1] for line in shown.splitlines() if " undo " in line]
    assert ckpt(*undo.split(), "--yes").code == 0
    assert ckpt("-s", rolled_back, "undo", KYOTO).code == 3


def test_the_screen_names_it(rolled_back: Path) -> None:
    (listed,) = run(rolled_back, "ops", "list")

    async def look(seat: Seat) -> None:
        seat.main.go_to(KYOTO)
        await seat.rest()
        assert seat.sees(f"rollback {listed['op'][:8]}: wrong")

    sit(rolled_back, look, size=(120, 60))


@pytest.mark.parametrize("is_folder", [False, True])
def test_without_its_log_the_metadata_tells_the_reason(
    rolled_back: Path, *, is_folder: bool
) -> None:
    log = Path(os.environ["XDG_STATE_HOME"]) / "ckpt" / "operations" / "log.ndjson"
    log.write_bytes(b'{"ckpt_operation": 1\n\xff\x00\n[]\n')
    if is_folder:
        log.unlink()
        log.mkdir()
    shown = run(rolled_back, "show", "--long", KYOTO)
    assert "operations" not in shown
    assert "operation" not in run(rolled_back, "history", KYOTO)[0]
    drawn = ckpt("-s", rolled_back, "show", KYOTO, "--tree").out
    assert "  reason: wrong\\x1b[2J hotel\n" in drawn


def test_a_redacted_answer_has_no_reason(rolled_back: Path) -> None:
    for words in (["show", KYOTO, "--tree"], ["show", "--long", KYOTO], ["history", KYOTO]):
        for form in ("table", "json"):
            answer = ckpt("-s", rolled_back, "--redact", *words, "-o", form)
            assert answer.code == 0, answer.err
            assert "wrong" not in answer.out, (words, form)
    assert ckpt("-s", rolled_back, "--redact", "history", KYOTO, "-o", "json").json[0]["operation"]


def test_a_copy_in_a_thread_is_named_there_alone(sample: Path) -> None:
    run(sample, "copy", KYOTO, "--at", "~2", "--as", "other", "--yes", "--reason", "to try")
    (shown,) = run(sample, "show", "--long", "other")["operations"]
    assert (shown["action"], shown["reason"]) == ("copy", "to try")
    assert not any("operation" in one for one in run(sample, "history", KYOTO))
    assert any("operation" in one for one in run(sample, "history", "other"))
