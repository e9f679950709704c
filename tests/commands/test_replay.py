"""`replay` verifies each step of a thread, and says which reducer explains it."""

from pathlib import Path
from typing import Any

import pytest

from tests.commands.words import refusals
from tests.kit.command import FIXTURES, ckpt, copy_store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copy_store(FIXTURES / "lg-1.2.22" / "store.db", tmp_path)


def replay(store: Path, *words: str) -> Any:
    return ckpt("-s", store, "replay", *words, "-o", "json").json


def test_each_channel_and_each_step_is_a_row(store: Path) -> None:
    rows = replay(store, "reducers", "--all-steps")
    assert {row["verdict"] for row in rows} == {"match", "unverifiable"}
    one = next(row for row in rows if row["channel"] == "facts" and row["writes"] == 2)
    assert (one["reducer"], one["step"], one["source"]) == ("dict_merge", 1, "loop")
    words = ("-s", store, "replay", "reducers", "--all-steps", "-o")
    table = ckpt(*words, "table").out
    assert "dict_merge" in table
    for text in (ckpt(*words, "tsv").out, table):
        assert len(text.splitlines()) == len(rows) + 1
    # Each channel is a line and what differs follows.
    shown = ckpt("-s", store, "replay", "reducers", "-o", "table").out.splitlines()
    channels = [line.split() for line in shown[: shown.index("")]]
    assert ["facts", "dict_merge", "4", "7", "0", "0"] in channels
    assert shown[len(channels) + 1].startswith("unverifiable  a29e  step 4 longest: no known")
    rows = ckpt("-s", store, "replay", "reducers", "-o", "tsv").out.splitlines()
    assert rows[0].split("\t")[:4] == ["thread_id", "namespace", "channel", "reducer"]
    assert [row.split("\t")[2] for row in rows[1:]] == [line[0] for line in channels[1:]]
    # A ref replays what led to it.
    whole = replay(store, "fork-update", "--all-steps")
    some = replay(store, "fork-update@step:1", "--all-steps")
    assert 0 < len(some) < len(whole)
    assert max(row["step"] for row in some) == 1


test_wrong_words_are_refused = refusals(
    ("replay trip-to-kyoto --all", 2, "--all"),
    ("replay trip-to-kyoto --jobs 2", 2, "--jobs"),
    ("replay trip-to-kyoto --reducer messages=nothing", 2, "nothing"),
    ("replay trip-to-kyoto --yes", 2, "--yes"),
    ("replay --all --repair", 2, "--repair"),
    ("replay --all --all-steps", 2, "--all-steps"),
    ("replay nobody", 3, "no thread 'nobody'"),
)
