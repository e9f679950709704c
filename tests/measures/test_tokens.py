"""`stats` counts what the models of real graphs were asked, each call once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph

import ckpt_cli
from ckpt_backends.testing.harness import Harness
from tests.kit.command import ckpt, first_now
from tests.kit.harness.mongodb import MongoHarness
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.harness.redis import RedisHarness
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.opening import empty_store
from tests.measures.models import SPENT, Chat, agent, talk

KINDS = ("messages", "input", "output", "cache_read", "cache_creation", "reasoning", "total")
CONFIG: Any = {"configurable": {"thread_id": "t"}}


@pytest.fixture(autouse=True)
def _nothing_spent() -> None:
    SPENT.clear()


def spent(model: str) -> dict[str, int]:
    return {kind: SPENT[model, kind] for kind in KINDS}


def amounts(record: dict[str, Any]) -> dict[str, int]:
    return {kind: record[kind] for kind in KINDS}


def by(url: Path | str, key: str, *words: str) -> dict[Any, dict[str, int]]:
    """The answer by one key."""
    names = {"thread": "thread_id"}
    found = ckpt("-s", url, "stats", "--by", key, *words, "-o", "json").json["by"]
    return {one[names.get(key, key)]: amounts(one) for one in found if one["messages"]}


@pytest.fixture(params=first_now([SqliteHarness, PostgresHarness, MongoHarness, RedisHarness]))
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    with empty_store(request.param, request, tmp_path) as found:
        yield found


def test_each_call_of_a_model_counts_once(harness: Harness) -> None:
    with harness.saver() as saver:
        graph = agent(saver)
        graph.invoke({"messages": [HumanMessage("one")]}, CONFIG)
        for _ in graph.stream({"messages": [HumanMessage("two")]}, CONFIG, stream_mode="messages"):
            pass
        # A second answer from an earlier checkpoint: the branch that was left cost, too.
        history = graph.get_state_history(CONFIG)
        earlier = next(one for one in history if one.next == ("research",))
        graph.invoke(None, earlier.config)
        left = graph.get_state(CONFIG).values["messages"]
        assert len(left) < SPENT["big", "messages"]
    assert by(harness.url, "model") == {"big": spent("big"), "small": spent("small")}
    nodes = by(harness.url, "node")
    assert nodes.keys() == {"chat", "research > dig", "sum"}
    assert nodes["research > dig"] == spent("small")
    assert nodes["chat"]["messages"] == 2
    assert nodes["sum"]["messages"] == 3
    assert by(harness.url, "thread").keys() == {"t"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


@pytest.fixture
def saver(path: Path) -> Iterator[SqliteSaver]:
    with SqliteSaver.from_conn_string(str(path)) as found:
        yield found


def test_a_state_tells_what_no_write_does(path: Path, saver: SqliteSaver) -> None:
    builder: Any = StateGraph(Chat)
    for name, after in (("one", START), ("two", "one")):
        builder.add_node(name, talk("big"))
        builder.add_edge(after, name)
    graph = builder.compile(checkpointer=saver)
    for text in ("first", "second"):
        graph.invoke({"messages": [HumanMessage(text)]}, CONFIG, durability="exit")
    assert by(path, "model") == {"big": spent("big")}


class Listed(TypedDict, total=False):
    said: list[Any]


class Added(TypedDict, total=False):
    messages: Annotated[list[Any], lambda old, new: old + new]


def _said() -> dict[str, Any]:
    usage = {"prompt_tokens": 20, "completion_tokens": 4, "total_tokens": 24}
    return {"role": "assistant", "content": "yes", "usage": usage}


def test_messages_without_an_id_count_once_for_each_place(path: Path, saver: SqliteSaver) -> None:
    whole: Any = StateGraph(Listed)
    whole.add_node("chat", lambda state: {"said": [*state["said"], _said()]})
    whole.add_node("again", lambda state: {"said": [*state["said"], _said()]})
    whole.add_edge(START, "chat")
    whole.add_edge("chat", "again")
    graph = whole.compile(checkpointer=saver)
    graph.invoke({"said": [{"role": "user", "content": "hi"}]}, CONFIG)
    assert by(path, "thread")["t"]["messages"] == 2

    added: Any = StateGraph(Added)
    added.add_node("chat", lambda _: {"messages": [_said()]})
    added.add_node("again", lambda _: {"messages": [_said()]})
    added.add_edge(START, "chat")
    added.add_edge("chat", "again")
    graph = added.compile(checkpointer=saver)
    graph.invoke({"messages": []}, {"configurable": {"thread_id": "added"}})
    assert by(path, "thread")["added"]["messages"] == 2


def test_an_id_that_is_given_when_messages_are_merged_is_no_other_message(
    path: Path, saver: SqliteSaver
) -> None:
    usage: Any = {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10}
    inner: Any = StateGraph(Chat)
    inner.add_node("dig", lambda _: {"messages": [AIMessage("x", usage_metadata=usage)]})
    inner.add_edge(START, "dig")
    builder: Any = StateGraph(Chat)
    builder.add_node("research", inner.compile())
    builder.add_edge(START, "research")
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"messages": [HumanMessage("go")]}, CONFIG)
    graph.invoke({"messages": [HumanMessage("go on")]}, CONFIG)
    assert by(path, "thread")["t"] == dict.fromkeys(KINDS, 0) | {
        "messages": 2,
        "input": 18,
        "output": 2,
        "total": 20,
    }


def test_a_copy_counts_again_and_a_pruned_thread_what_is_left(
    path: Path, saver: SqliteSaver
) -> None:
    graph = agent(saver)
    for text in ("one", "two"):
        graph.invoke({"messages": [HumanMessage(text)]}, CONFIG)
    left = [one for one in graph.get_state(CONFIG).values["messages"] if one.type == "ai"]
    copied = ckpt("-s", path, "copy", "t", "--as", "copy", "--yes")
    assert copied.code == 0, copied.err
    whole = by(path, "thread")
    assert whole["copy"] == whole["t"]
    assert whole["t"]["messages"] == SPENT["big", "messages"] + SPENT["small", "messages"]
    pruned = ckpt("-s", path, "purge", "--match", "t", "--keep-last", "1", "--yes")
    assert pruned.code == 0, pruned.err
    assert by(path, "thread")["t"]["messages"] == len(left) < whole["t"]["messages"]
    assert by(path, "thread")["copy"] == whole["copy"]


def test_days_and_time_ranges(path: Path, saver: SqliteSaver) -> None:
    graph = agent(saver)
    graph.invoke({"messages": [HumanMessage("one")]}, CONFIG)
    with ckpt_cli.open(path) as store:
        (row,) = store.stats(by="day")["by"]
        head = store["t"].head.ts
        assert head is not None
        days = [head.astimezone().date(), (head - timedelta(minutes=1)).astimezone().date()]
        assert row["day"] in map(str, days)
        assert store.stats(since=head)["messages"] == 0
        assert store["t"].stats(by=["model", "node"])["by"][0].keys() >= {"model", "node"}
        assert store["t"].stats(ns="")["messages"] == 3  # the caller writes the message again


def test_prices_are_those_of_the_configuration(path: Path, saver: SqliteSaver) -> None:
    agent(saver).invoke({"messages": [HumanMessage("one")]}, CONFIG)
    config = path.with_name("ckpt.toml")
    config.write_text(
        f'[stores.here]\nurl = "{path}"\n'
        '[prices]\ncurrency = "EUR"\n[prices."bi*"]\ninput = 2.0\noutput = 10\ncache_read = 0.5\n'
    )
    shown = ckpt("--config", config, "-s", "here", "stats", "--by", "model", "-o", "json")
    assert "no price for small" in shown.err
    big = spent("big")
    plain = big["input"] - big["cache_read"]
    expected = (plain * 2 + big["cache_read"] * 0.5 + big["output"] * 10) / 1_000_000
    assert shown.json["cost"] == pytest.approx(expected, abs=1e-6)
    assert shown.json["currency"] == "EUR"
    costs = {one["model"]: one["cost"] for one in shown.json["by"]}
    assert costs == {"big": shown.json["cost"], "small": None}
    table = ckpt("--config", config, "-s", "here", "stats", "--by", "model", "-o", "table").out
    assert "COST EUR" in table
    assert "COST" not in ckpt("-s", path, "stats", "--by", "model", "-o", "table").out


def test_prices_of_a_file_that_is_not_trusted_are_used(
    path: Path, saver: SqliteSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent(saver).invoke({"messages": [HumanMessage("one")]}, CONFIG)
    monkeypatch.chdir(path.parent)
    path.with_name("ckpt.toml").write_text(
        f'[stores.here]\nurl = "{path.name}"\n[prices."*"]\ninput = 1\noutput = 1\n'
        '[stores.own]\nurl = "agent.db"\nprices = {"*" = {input = 2, output = 2}}\n'
    )
    one, own = (
        ckpt("-s", name, "stats", "--by", "model", "-o", "json") for name in ("here", "own")
    )
    assert one.json["cost"] > 0
    assert own.json["cost"] == pytest.approx(2 * one.json["cost"])
    assert one.err == own.err == ""


@pytest.mark.parametrize(
    ("prices", "said"),
    [
        ("[prices.big]\ninput = 1\n", "lack input or output"),
        ("[prices.big]\ninput = 1\noutput = -1\n", "is not a price"),
        ("[prices.big]\ninput = 1\noutput = 1\nother = 1\n", "unknown key 'other'"),
        ("prices = 1\n", "not a table"),
        ("[prices]\ncurrency = 1\n", "currency is not text"),
    ],
)
def test_prices_that_cannot_be_read_are_named(path: Path, prices: str, said: str) -> None:
    config = path.with_name("ckpt.toml")
    config.write_text(prices)
    shown = ckpt("--config", config, "-s", "sqlite:///x.db", "stats", "--by", "model")
    assert (shown.code, said in shown.err) == (2, True), shown.err


def test_models_are_hidden_with_redact(path: Path, saver: SqliteSaver) -> None:
    agent(saver).invoke({"messages": [HumanMessage("one")]}, CONFIG)
    found = ckpt("-s", path, "stats", "--by", "model", "--redact", "-o", "json").json
    assert [one["model"] for one in found["by"]] == [None]
    assert found["messages"] == 3


def test_options_that_do_not_fit_are_refused(path: Path, saver: SqliteSaver) -> None:
    agent(saver).invoke({"messages": [HumanMessage("one")]}, CONFIG)
    for words, said in (
        (["--by", "month"], "cannot group by 'month'"),
        (["--by", "channel,model"], "cannot group by channel and model"),
        (["--time"], "use `ckpt stats`"),
        (["--tokens"], f"use `ckpt -s {path} stats --by model`"),
    ):
        shown = ckpt("-s", path, "stats", *words)
        assert (shown.code, said in shown.err) == (2, True), shown.err


def test_messages_without_usage_data_are_counted(path: Path, saver: SqliteSaver) -> None:
    def answer(_state: Any) -> Any:
        said = [AIMessage("one"), AIMessage("two", id="two"), AIMessage("two, more", id="two")]
        told = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        return {"messages": [*said, AIMessage("told", id="told", usage_metadata=told)]}

    graph: Any = StateGraph(MessagesState)
    graph.add_node("answer", answer).add_edge(START, "answer")
    given = {"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]}
    graph.compile(saver).invoke(given, CONFIG)
    found = ckpt("-s", path, "stats", "--by", "model", "-o", "json")
    assert (found.json["messages"], found.json["without_usage"]) == (1, 3)
    assert "3 messages of models have no usage data" in found.err
    saver.delete_thread("t")
    assert "usage data" not in ckpt("-s", path, "stats", "--by", "model").err


def test_a_row_counts_once_for_each_type(path: Path, saver: SqliteSaver) -> None:
    graph: Any = StateGraph(MessagesState)
    graph.add_node("talk", talk("big")).add_edge(START, "talk")
    graph.compile(saver).invoke({"messages": [HumanMessage("one")]}, CONFIG)
    rows = {one["type"]: one["rows"] for one in by_type(path)}
    ((bodies, writes),) = saver.conn.execute(
        "SELECT (SELECT count(*) FROM checkpoints), (SELECT count(*) FROM writes)"
    )
    assert rows["json"] == bodies
    assert sum(rows.values()) == 2 * bodies + writes
    saver.conn.execute("UPDATE checkpoints SET type = 'json', checkpoint = '{}'")
    saver.conn.commit()
    assert {one["type"]: one["rows"] for one in by_type(path)}["json"] == bodies


def by_type(path: Path) -> Any:
    return ckpt("-s", path, "du", "--by", "type", "-o", "json").json
