"""`stats` tells in one table what each node wrote, how long it took and what its models cost."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import MessagesState

import ckpt_cli
from ckpt_backends.testing.harness import Harness
from tests.commands.counting_model import SPENT, Chat, agent, talk
from tests.kit.agents.small import chain, nested, saver_of
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, SAMPLE, ckpt, copy_store, first_now
from tests.kit.harness.mongodb import MongoHarness
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.harness.redis import RedisHarness
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.opening import empty_store

TRIP = "trip-to-kyoto"
AMOUNTS = {"runs", "writes", "bytes", "p50", "p95", "tokens"}
KINDS = ("messages", "input", "output", "cache_read", "cache_creation", "reasoning", "total")
CONFIG: Any = {"configurable": {"thread_id": "t"}}
ONE: Any = {"messages": [HumanMessage("one")]}
TWO: Any = {"messages": [HumanMessage("two")]}


def stats(store: Path | str, *words: str) -> Any:
    return ckpt("-s", store, "stats", *words, "-o", "json").json


def sampled(*words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = stats(SAMPLE, *words)["by"]
    return found


def test_one_table_has_all_that_is_known_of_a_node() -> None:
    found = stats(SAMPLE)
    nodes = {one["node"]: one for one in found["nodes"]}
    assert all(one.keys() >= {"node", *AMOUNTS} for one in nodes.values())
    assert nodes == {one["node"]: one for one in sampled("--by", "node")}
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
    whole = stats(SAMPLE)
    assert sampled("--by", "node,channel") == whole["by"]
    channels = sampled("--by", "channel")
    assert channels == whole["channels"]
    assert {one["channel"]: one["ratio"] for one in channels}["messages"] == 4.8
    assert "node" in sampled("--by", "node,channel", "--match", "trip-*")[0]


@pytest.mark.parametrize("key", ["thread", "day", "user"])
def test_other_keys_have_the_columns_of_nodes(key: str) -> None:
    found, whole = sampled("--by", key), stats(SAMPLE)
    name = {"thread": "thread_id"}.get(key, key)
    assert all(one.keys() >= {name, *AMOUNTS} for one in found)
    for one in ("runs", "writes", "bytes", "tokens"):
        assert sum(row[one] for row in found) == whole[one]
    # Time is that of steps, as in `timeline`: a node inside another does not count twice.
    assert sum(row["seconds"] for row in found) <= whole["running_seconds"] + 1e-6


def test_the_user_is_that_of_the_newest_checkpoint() -> None:
    by_user = {one["user"]: one for one in sampled("--by", "user")}
    (alone,) = sampled(TRIP, "--by", "user")
    assert by_user["mara"] == alone
    assert {one["user"] for one in sampled("--by", "user,model")} == {"mara", "tomás", "jonas"}
    assert {one["user"] for one in sampled("--by", "user", "--redact")} == {None}


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
    whole = stats(SAMPLE, TRIP)
    since = ckpt("-s", SAMPLE, "history", TRIP, "-o", "json").json[2]["ts"]
    found = stats(SAMPLE, TRIP, "--since", since)
    assert 0 < found["runs"] < whole["runs"]
    assert found["checkpoints"] == 3
    assert stats(SAMPLE, TRIP, "--ns", "planner")["checkpoints"] < whole["checkpoints"]
    none = stats(SAMPLE, "--until", "2001-01-01")
    assert none["writes"] == none["checkpoints"] == 0


def test_writes_are_those_that_show_prints(tmp_path: Path) -> None:
    store = copy_store(FIXTURES / "lg-1.2.22" / "store.db", tmp_path)
    history = ckpt("-s", store, "history", "chat", "-o", "json").json
    places = [f"chat@{row['checkpoint_id']}" for row in history]
    shown = [
        write
        for place in places
        for write in ckpt("-s", store, "show", place, "--writes", "-o", "json").json["writes"]
    ]
    found = stats(store, "chat")
    assert found["writes"] == len(shown) > 0
    assert found["bytes"] == sum(write["bytes"] for write in shown)
    by = {(one["node"], one["channel"]): one["writes"] for one in found["by"]}
    assert by == Counter((write["node"], write["channel"]) for write in shown)
    assert round(sum(one["share"] for one in found["by"]), 2) == 1


def spent(model: str) -> dict[str, int]:
    return {kind: SPENT[model, kind] for kind in KINDS}


def tokens(store: Path | str, key: str) -> dict[Any, dict[str, int]]:
    """The answer by one key, of all rows with messages of models."""
    name = {"thread": "thread_id"}.get(key, key)
    found = [one for one in stats(store, "--by", key)["by"] if one["messages"]]
    return {one[name]: {kind: one[kind] for kind in KINDS} for one in found}


@pytest.fixture(params=first_now([SqliteHarness, PostgresHarness, MongoHarness, RedisHarness]))
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    with empty_store(request.param, request, tmp_path) as found:
        yield found


@pytest.fixture(autouse=True)
def _nothing_spent() -> None:
    SPENT.clear()


def test_each_call_of_a_model_counts_once(harness: Harness) -> None:
    with harness.saver() as saver:
        graph = agent(saver)
        graph.invoke(ONE, CONFIG)
        for _ in graph.stream(TWO, CONFIG, stream_mode="messages"):
            pass
        # A second answer from an earlier checkpoint: the branch that was left cost, too.
        history = graph.get_state_history(CONFIG)
        earlier = next(one for one in history if one.next == ("research",))
        graph.invoke(None, earlier.config)
        left = graph.get_state(CONFIG).values["messages"]
        assert len(left) < SPENT["big", "messages"]
    assert tokens(harness.url, "model") == {"big": spent("big"), "small": spent("small")}
    nodes = tokens(harness.url, "node")
    assert {name: one["messages"] for name, one in nodes.items()} == {
        **{"chat": 2, "sum": 3},
        "research > dig": SPENT["small", "messages"],
    }
    assert nodes["research > dig"] == spent("small")
    assert tokens(harness.url, "thread").keys() == {"t"}


@pytest.fixture
def saver(path: Path) -> Iterator[SqliteSaver]:
    with saver_of(path) as found:
        yield found


@pytest.fixture
def asked(path: Path, saver: SqliteSaver) -> Path:
    """A store of the agent, which was asked once."""
    agent(saver).invoke(ONE, CONFIG)
    return path


def test_a_state_tells_what_no_write_does(path: Path, saver: SqliteSaver) -> None:
    graph = chain(Chat, {"one": talk("big"), "two": talk("big")}).compile(checkpointer=saver)
    for given in (ONE, TWO):
        graph.invoke(given, CONFIG, durability="exit")
    assert tokens(path, "model") == {"big": spent("big")}


class Listed(TypedDict, total=False):
    messages: list[Any]


class Added(TypedDict, total=False):
    messages: Annotated[list[Any], lambda old, new: old + new]


SAID = {
    **{"role": "assistant", "content": "yes"},
    "usage": {"prompt_tokens": 20, "completion_tokens": 4, "total_tokens": 24},
}


@cases(
    "schema say",
    (Listed, lambda state: {"messages": [*state["messages"], SAID]}),
    (Added, lambda state: {"messages": [SAID]}),
    ids=["the whole list is written", "what is new is written"],
)
def test_messages_without_an_id_count_once_for_each_place(
    path: Path, saver: SqliteSaver, schema: type, say: Any
) -> None:
    graph = chain(schema, {"chat": say, "again": say}).compile(checkpointer=saver)
    graph.invoke({"messages": [{"role": "user", "content": "hi"}]}, CONFIG)
    assert tokens(path, "thread")["t"]["messages"] == 2


def test_an_id_that_is_given_by_a_merge_is_no_other_message(path: Path, saver: SqliteSaver) -> None:
    usage: Any = {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10}
    dig = {"dig": lambda _: {"messages": [AIMessage("x", usage_metadata=usage)]}}
    graph = nested(Chat, chain(Chat, dig), "research").compile(checkpointer=saver)
    for given in (ONE, TWO):
        graph.invoke(given, CONFIG)
    counted = {"messages": 2, "input": 18, "output": 2, "total": 20}
    assert tokens(path, "thread")["t"] == dict.fromkeys(KINDS, 0) | counted


def test_a_copy_counts_again_and_what_is_pruned_less(path: Path, saver: SqliteSaver) -> None:
    graph = agent(saver)
    for given in (ONE, TWO):
        graph.invoke(given, CONFIG)
    left = [one for one in graph.get_state(CONFIG).values["messages"] if one.type == "ai"]
    assert ckpt("-s", path, "copy", "t", "--as", "copy", "--yes").code == 0
    whole = tokens(path, "thread")
    assert whole["copy"] == whole["t"]
    assert whole["t"]["messages"] == SPENT["big", "messages"] + SPENT["small", "messages"]
    assert ckpt("-s", path, "purge", "--match", "t", "--keep-last", "1", "--yes").code == 0
    pruned = tokens(path, "thread")
    assert pruned["t"]["messages"] == len(left) < whole["t"]["messages"]
    assert pruned["copy"] == whole["copy"]


def test_days_and_time_ranges(asked: Path) -> None:
    with ckpt_cli.open(asked) as store:
        (row,) = store.stats(by="day")["by"]
        head = store["t"].head.ts
        assert head is not None
        days = [head.astimezone().date(), (head - timedelta(minutes=1)).astimezone().date()]
        assert row["day"] in map(str, days)
        assert store.stats(since=head)["messages"] == 0
        assert store["t"].stats(by=["model", "node"])["by"][0].keys() >= {"model", "node"}
        assert store["t"].stats(ns="")["messages"] == 3  # the caller writes the message again


def test_prices_are_those_of_the_configuration(asked: Path) -> None:
    config = asked.with_name("ckpt.toml")
    config.write_text(
        f'[stores.here]\nurl = "{asked}"\n'
        '[prices]\ncurrency = "EUR"\n[prices."bi*"]\ninput = 2.0\noutput = 10\ncache_read = 0.5\n'
    )
    words = ("--config", config, "-s", "here", "stats", "--by", "model", "-o")
    shown = ckpt(*words, "json")
    assert "no price for small" in shown.err
    big = spent("big")
    plain = big["input"] - big["cache_read"]
    expected = (plain * 2 + big["cache_read"] * 0.5 + big["output"] * 10) / 1_000_000
    assert shown.json["cost"] == pytest.approx(expected, abs=1e-6)
    assert shown.json["currency"] == "EUR"
    costs = {one["model"]: one["cost"] for one in shown.json["by"]}
    assert costs == {"big": shown.json["cost"], "small": None}
    assert "COST EUR" in ckpt(*words, "table").out
    assert "COST" not in ckpt("-s", asked, "stats", "--by", "model", "-o", "table").out


def test_prices_need_no_trusted_file(asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(asked.parent)
    asked.with_name("ckpt.toml").write_text(
        '[stores.here]\nurl = "store.db"\n[prices."*"]\ninput = 1\noutput = 1\n'
        '[stores.own]\nurl = "store.db"\nprices = {"*" = {input = 2, output = 2}}\n'
    )
    one, own = (ckpt("-s", it, "stats", "-o", "json", "--by", "model") for it in ("here", "own"))
    assert one.json["cost"] > 0
    assert own.json["cost"] == pytest.approx(2 * one.json["cost"])
    assert one.err == own.err == ""


@cases(
    "prices said",
    ("[prices.big]\ninput = 1\n", "lack input or output"),
    ("[prices.big]\ninput = 1\noutput = -1\n", "is not a price"),
    ("[prices.big]\ninput = 1\noutput = 1\nother = 1\n", "unknown key 'other'"),
    ("prices = 1\n", "not a table"),
    ("[prices]\ncurrency = 1\n", "currency is not text"),
)
def test_prices_that_cannot_be_read_are_named(path: Path, prices: str, said: str) -> None:
    config = path.with_name("ckpt.toml")
    config.write_text(prices)
    shown = ckpt("--config", config, "-s", "sqlite:///x.db", "stats", "--by", "model")
    assert (shown.code, said in shown.err) == (2, True), shown.err


def test_models_are_hidden_with_redact(asked: Path) -> None:
    found = stats(asked, "--by", "model", "--redact")
    assert [one["model"] for one in found["by"]] == [None]
    assert found["messages"] == 3


@cases(
    "words said",
    (["--by", "month"], "cannot group by 'month'"),
    (["--by", "channel,model"], "cannot group by channel and model"),
    (["--time"], "use `ckpt stats`"),
    (["--tokens"], f"use `ckpt -s {SAMPLE} stats --by model`"),
    ([TRIP, "--match", "c*"], "cannot be combined with --match"),
    ids=str,
)
def test_options_that_do_not_fit_are_refused(words: list[str], said: str) -> None:
    shown = ckpt("-s", SAMPLE, "stats", *words)
    assert (shown.code, said in shown.err) == (2, True), shown.err


def test_messages_without_usage_data_are_counted(path: Path, saver: SqliteSaver) -> None:
    def answer(_state: Any) -> Any:
        said = [AIMessage("one"), AIMessage("two", id="two"), AIMessage("two, more", id="two")]
        told = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        return {"messages": [*said, AIMessage("told", id="told", usage_metadata=told)]}

    given = {"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]}
    chain(MessagesState, {"answer": answer}).compile(checkpointer=saver).invoke(given, CONFIG)
    found = ckpt("-s", path, "stats", "--by", "model", "-o", "json")
    assert (found.json["messages"], found.json["without_usage"]) == (1, 3)
    assert "3 messages of models have no usage data" in found.err
    saver.delete_thread("t")
    assert "usage data" not in ckpt("-s", path, "stats", "--by", "model").err
