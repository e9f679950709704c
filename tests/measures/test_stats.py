"""`stats` tells in one table what each node wrote, how long it took and what it cost."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.command import SAMPLE, ckpt

TRIP = "trip-to-kyoto"
AMOUNTS = {"runs", "writes", "bytes", "p50", "p95", "tokens"}


def asked(*words: str) -> Any:
    return ckpt("-s", SAMPLE, "stats", *words, "-o", "json").json


def rows(*words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = asked(*words)["by"]
    return found


def test_one_table_has_all_that_is_known_of_a_node() -> None:
    found = asked()
    nodes = {one["node"]: one for one in found["nodes"]}
    assert all(one.keys() >= {"node", *AMOUNTS} for one in nodes.values())
    assert nodes == {one["node"]: one for one in rows("--by", "node")}
    book = nodes["book"]
    assert (book["runs"], book["writes"], book["tokens"]) == (2, 4, 1116)
    assert book["p50"] == pytest.approx(0.041716)
    # A subgraph's node is one row, by its callers, whatever is counted.
    dug = nodes["gather > search_web > fetch"]
    assert (dug["runs"], dug["writes"]) == (2, 2)
    for key in ("runs", "writes", "bytes", "tokens"):
        assert sum(one[key] for one in nodes.values()) == found[key]
    took = [one["seconds"] or 0.0 for one in nodes.values()]
    assert took == sorted(took, reverse=True)


def test_writes_by_channel_are_next_to_what_is_stored() -> None:
    whole = asked()
    assert rows("--by", "node,channel") == whole["by"]
    channels = rows("--by", "channel")
    assert channels == whole["channels"]
    assert {one["channel"]: one["ratio"] for one in channels}["messages"] == 4.8
    assert "node" in rows("--by", "node,channel", "--match", "trip-*")[0]


@pytest.mark.parametrize("key", ["thread", "day", "user"])
def test_other_keys_have_the_columns_of_nodes(key: str) -> None:
    found, whole = rows("--by", key), asked()
    name = {"thread": "thread_id"}.get(key, key)
    assert all(one.keys() >= {name, *AMOUNTS} for one in found)
    for one in ("runs", "writes", "bytes", "tokens"):
        assert sum(row[one] for row in found) == whole[one]
    # Time is that of steps, as in `timeline`: a node inside another does not count twice.
    assert sum(row["seconds"] for row in found) <= whole["running_seconds"] + 1e-6


def test_the_user_is_that_of_the_newest_checkpoint() -> None:
    by_user = {one["user"]: one for one in rows("--by", "user")}
    (alone,) = rows(TRIP, "--by", "user")
    assert by_user["mara"] == alone
    both = rows("--by", "user,model")
    assert {one["user"] for one in both} == {"mara", "tomás", "jonas"}
    assert {one["user"] for one in asked("--by", "user", "--redact")["by"]} == {None}


def test_a_table_is_by_node_and_models_have_kinds_of_tokens() -> None:
    table = ckpt("-s", SAMPLE, "stats", "-o", "table", "--top", "3").out.splitlines()
    assert table[:3] == [
        "8 threads, 95 checkpoints, 55 runs, 175 writes of 11 KiB, 3,586 tokens",
        "1.1s running, 151ms waiting for answers, 373ms idle",
        "",
    ]
    assert table[3].split() == ["NODE", "RUNS", "WRITES", "SIZE", "TIME", "P50", "P95", "TOKENS"]
    assert [one.split()[0] for one in table[4:6]] == ["gather", "search"]
    assert table[7] == "… and 40 more; --top N for more"
    table = ckpt("-s", SAMPLE, "stats", "--by", "model", "-o", "table").out.splitlines()
    assert "CACHE READ" in table[2]
    header, first, *_ = ckpt("-s", SAMPLE, "stats", "-o", "tsv").out.splitlines()
    assert dict(zip(header.split("\t"), first.split("\t"), strict=True))["measured"] == "2"


def test_only_what_is_in_a_range_is_counted() -> None:
    history = ckpt("-s", SAMPLE, "history", TRIP, "-o", "json").json
    since = history[2]["ts"]
    found = asked(TRIP, "--since", since)
    assert 0 < found["runs"] < asked(TRIP)["runs"]
    assert found["checkpoints"] == 3
    assert asked(TRIP, "--ns", "planner")["checkpoints"] < asked(TRIP)["checkpoints"]
