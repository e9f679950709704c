"""`replay`, `diff --writes` and `stats` as a person or a script calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kit.command import FIXTURES, ckpt, copy_store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copy_store(FIXTURES / "lg-1.2.22" / "store.db", tmp_path)


def test_each_step_is_a_row_of_all_steps(store: Path) -> None:
    rows = ckpt("-s", store, "replay", "reducers", "--all-steps", "-o", "json").json
    assert {row["verdict"] for row in rows} == {"match", "unverifiable"}
    one = next(row for row in rows if row["channel"] == "facts" and row["writes"] == 2)
    assert (one["reducer"], one["step"], one["source"]) == ("dict_merge", 1, "loop")
    lines = ckpt("-s", store, "replay", "reducers", "--all-steps", "-o", "tsv").out.splitlines()
    assert len(lines) == len(rows) + 1
    shown = ckpt("-s", store, "replay", "reducers", "--all-steps", "-o", "table").out
    assert "dict_merge" in shown
    assert len(shown.splitlines()) == len(lines)


def test_each_channel_is_a_line_and_what_differs_follows(store: Path) -> None:
    shown = ckpt("-s", store, "replay", "reducers", "-o", "table").out.splitlines()
    channels = [line.split() for line in shown[: shown.index("")]]
    assert channels[0] == ["CHANNEL", "REDUCER", "EVIDENCE", "MATCH", "MISMATCH", "UNVERIFIABLE"]
    assert ["facts", "dict_merge", "4", "7", "0", "0"] in channels
    assert shown[len(channels) + 1 :] == [
        "unverifiable  a29e  step 4 longest: no known reducer explains this step and the others",
        "",
        "8 transitions: 7 match, 1 unverifiable",
    ]
    rows = ckpt("-s", store, "replay", "reducers", "-o", "tsv").out.splitlines()
    assert rows[0].split("\t")[:4] == ["thread_id", "namespace", "channel", "reducer"]
    assert [row.split("\t")[2] for row in rows[1:]] == [line[0] for line in channels[1:]]


def test_a_channel_of_a_subgraph_is_a_line_with_its_namespace(sample: Path) -> None:
    shown = ckpt("-s", sample, "replay", "trip-to-kyoto", "-o", "table").out.splitlines()
    assert shown[0].split()[:2] == ["NAMESPACE", "CHANNEL"]
    assert ["planner", "itinerary"] in [line.split()[:2] for line in shown]
    assert shown[-2:] == ["", "20 transitions: 20 match"]
    report = ckpt("-s", sample, "replay", "trip-to-kyoto", "-o", "json").json
    assert report == ckpt("-s", sample, "replay", "trip-to-kyoto", "--verify", "-o", "json").json
    assert report["channels"]["planner/itinerary"]["match"] == 2


def test_a_ref_replays_what_led_to_it(store: Path) -> None:
    whole = ckpt("-s", store, "replay", "fork-update", "--all-steps", "-o", "json").json
    some = ckpt("-s", store, "replay", "fork-update@step:1", "--all-steps", "-o", "json").json
    assert 0 < len(some) < len(whole)
    assert max(row["step"] for row in some) == 1


@pytest.mark.engines
def test_several_processes_find_the_same(store: Path) -> None:
    one = ckpt("-s", store, "replay", "--all", "--verify", "-o", "ndjson")
    two = ckpt("-s", store, "replay", "--all", "--verify", "--jobs", "2", "-o", "ndjson")
    assert one.code == two.code == 0
    assert sorted(one.out.splitlines()) == sorted(two.out.splitlines())
    some = ckpt("-s", store, "replay", "--all", "--match", "zoo-*", "-o", "json").json
    assert some
    assert all(row["thread_id"].startswith("zoo-") for row in some)
    alone = ckpt("-s", store, "stats", "-o", "json").json
    assert alone == ckpt("-s", store, "stats", "--jobs", "2", "-o", "json").json


@pytest.mark.parametrize(
    "words",
    [
        ["replay", "chat", "--all"],
        ["replay", "chat", "--jobs", "2"],
        ["replay", "chat", "--reducer", "messages"],
        ["replay", "chat", "--reducer", "messages=nothing"],
        ["replay", "chat", "--yes"],
        ["replay", "--all", "--repair"],
        ["replay", "--all", "--all-steps"],
        ["diff", "chat", "head~1", "--writes"],
        ["stats", "chat", "--match", "c*"],
    ],
    ids=" ".join,
)
def test_wrong_words_are_refused(store: Path, words: list[str]) -> None:
    assert ckpt("-s", store, *words).code == 2


def test_a_profile_with_wrong_reducers_is_refused(store: Path, tmp_path: Path) -> None:
    profile = tmp_path / "ckpt.toml"
    profile.write_text(f'[stores.x]\nurl = "{store}"\nreducers = "append"\n')
    answer = ckpt("--config", profile, "-s", "x", "replay", "chat")
    assert answer.code == 2
    assert "[stores.x.reducers]" in answer.err


def test_writes_are_shown_with_what_they_did(store: Path) -> None:
    found = ckpt("-s", store, "diff", "--writes", "reducers@step:1", "-o", "json").json
    facts = found["channels"]["facts"]
    assert [(one["node"], one["added"], one["changed"]) for one in facts["writes"]] == [
        ("one", 2, 0),
        ("two", 1, 1),
    ]
    assert facts["before"] == {"seed": True}
    assert facts["rebuilt"] == facts["stored"]
    assert facts["verdict"] == "match"
    assert {one["effect"] for one in found["channels"]["worst"]["writes"]} == {"duplicate"}
    assert {one["effect"] for one in found["others"]} == {"special"}
    text = ckpt("-s", store, "diff", "--writes", "reducers@step:1").out
    assert "← two 3 +1 ~1" in text
    only = ckpt(
        *("-s", store, "diff", "--writes", "reducers@step:1", "--channel", "total"), "-o", "json"
    ).json
    assert list(only["channels"]) == ["total"]
    assert only["others"] == []


def test_what_a_new_input_discards_is_dropped(store: Path) -> None:
    """One of two questions was answered, and then a new input came."""
    rows = ckpt("-s", store, "history", "interrupt-abandoned", "-o", "json").json
    child = next(row for row in rows if row["source"] == "input" and row["step"] > 0)
    found = ckpt(
        *("-s", store, "diff", "--writes", "interrupt-abandoned", "--ns", ""), "-o", "json"
    ).json
    assert found["child"] != child["checkpoint_id"]
    target = f"interrupt-abandoned@{child['checkpoint_id']}"
    found = ckpt("-s", store, "diff", "--writes", target, "-o", "json").json
    assert found["source"] == "input"
    assert found["channels"] == {}
    assert [one["channel"] for one in found["others"]] == ["__interrupt__"]


def test_an_overwrite_is_told(store: Path) -> None:
    rows = ckpt("-s", store, "replay", "delta-often", "--all-steps", "-o", "json").json
    seen = set()
    for child in {row["child"] for row in rows}:
        found = ckpt("-s", store, "diff", "--writes", f"delta-often@{child}", "-o", "json").json
        for channel in found["channels"].values():
            assert channel["verdict"] != "mismatch"
            seen |= {one["effect"] for one in channel["writes"]}
    assert seen >= {"applied"}


def test_stats_count_what_the_writes_are(store: Path) -> None:
    found = ckpt("-s", store, "stats", "chat", "-o", "json").json
    shown = [
        write
        for row in ckpt("-s", store, "history", "chat", "-o", "json").json
        for write in ckpt(
            "-s", store, "show", f"chat@{row['checkpoint_id']}", "--writes", "-o", "json"
        ).json["writes"]
    ]
    assert found["writes"] == len(shown)
    assert found["bytes"] == sum(write["bytes"] for write in shown)
    by = {(one["node"], one["channel"]): one["writes"] for one in found["by"]}
    expected: dict[tuple[str, str], int] = {}
    for write in shown:
        key = write["node"], write["channel"]
        expected[key] = expected.get(key, 0) + 1
    assert by == expected
    assert round(sum(one["share"] for one in found["by"]), 2) == 1
    none = ckpt("-s", store, "stats", "--until", "2001-01-01", "-o", "json").json
    assert none["writes"] == none["checkpoints"] == 0
    assert "messages" in ckpt("-s", store, "stats", "chat", "--by", "channel").out


def test_an_error_is_one_line(store: Path) -> None:
    answer = ckpt("-s", store, "replay", "no-such-thread", "-o", "json")
    assert answer.code == 3
    assert json.loads(answer.err.splitlines()[-1])["error"] == "not_found"
