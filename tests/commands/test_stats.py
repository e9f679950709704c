"""`stats` tells in one table what each node wrote, how long it took and what its models cost."""

from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send

from tests.commands.words import refusals
from tests.kit.agents.small import chain, nested, run, running, saver_of
from tests.kit.cases import cases
from tests.kit.command import SAMPLE, ckpt

KINDS = ("messages", "input", "output", "cache_read", "cache_creation", "reasoning", "total")
USAGE: Any = {
    **{"input_tokens": 100, "output_tokens": 10, "total_tokens": 110},
    "input_token_details": {"cache_read": 7, "cache_creation": 3},
    "output_token_details": {"reasoning": 5},
}


def used(calls: int) -> dict[str, int]:
    """Return what so many calls use."""
    return dict(zip(KINDS, (n * calls for n in (1, 100, 10, 7, 3, 5, 110)), strict=True))


class Chat(TypedDict, total=False):
    messages: Annotated[list[Any], add_messages]


def talk(model: str) -> Any:
    """Return a node with an answer of a model, which tells what it used."""
    told: Any = {"usage_metadata": USAGE, "response_metadata": {"model_name": model}}
    return lambda _: {"messages": [AIMessage("an answer", id=str(uuid4()), **told)]}


def trim(state: Any) -> Any:
    """Remove all but the last message."""
    return {"messages": [RemoveMessage(one.id) for one in state["messages"][:-1]]}


def agent(saver: Any) -> Any:
    """Compile: a model, its messages trimmed, and a subgraph with another model."""
    inner = chain(Chat, {"dig": talk("small")}).compile()
    nodes = {"chat": talk("big"), "trim": trim, "research": inner, "sum": talk("big")}
    return chain(Chat, nodes).compile(checkpointer=saver)


AMOUNTS = {"runs", "writes", "bytes", "p50", "p95", "tokens"}
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
    none = stats(SAMPLE, "--until", "2001-01-01")
    assert none["writes"] == none["checkpoints"] == 0
    took = [one["seconds"] or 0.0 for one in nodes.values()]
    assert took == sorted(took, reverse=True)
    # A table is by node and models have kinds of tokens.
    table = ckpt("-s", SAMPLE, "stats", "-o", "table", "--top", "3").out.splitlines()
    assert table[0] == "8 threads, 95 checkpoints, 55 runs, 175 writes of 11 KiB, 3,586 tokens"
    assert table[7] == "… and 40 more; --top N for more"
    table = ckpt("-s", SAMPLE, "stats", "--by", "model", "-o", "table").out.splitlines()
    assert "CACHE READ" in table[2]
    header, first, *_ = ckpt("-s", SAMPLE, "stats", "-o", "tsv").out.splitlines()
    assert dict(zip(header.split("\t"), first.split("\t"), strict=True))["measured"] == "2"


@pytest.mark.parametrize("key", ["thread", "day", "user", "channel"])
def test_other_keys_have_the_columns_of_nodes(key: str) -> None:
    found, whole = sampled("--by", key), stats(SAMPLE)
    name = {"thread": "thread_id"}.get(key, key)
    if key == "channel":
        assert found == whole["channels"]
        return
    assert all(one.keys() >= {name, *AMOUNTS} for one in found)
    for one in ("runs", "writes", "bytes", "tokens"):
        assert sum(row[one] for row in found) == whole[one]
    # Time is that of steps, as in `timeline`: a node inside another does not count twice.
    assert sum(row["seconds"] for row in found) <= whole["running_seconds"] + 1e-6


def tokens(store: Path | str, key: str) -> dict[Any, dict[str, int]]:
    """The answer by one key, of all rows with messages of models."""
    name = {"thread": "thread_id"}.get(key, key)
    found = [one for one in stats(store, "--by", key)["by"] if one["messages"]]
    return {one[name]: {kind: one[kind] for kind in KINDS} for one in found}


def test_each_call_of_a_model_counts_once(path: Path) -> None:
    with saver_of(path) as saver:
        graph = agent(saver)
        graph.invoke(ONE, CONFIG)
        graph.invoke(TWO, CONFIG)
        # A second answer from an earlier checkpoint: the branch that was left cost, too.
        earlier = next(one for one in graph.get_state_history(CONFIG) if one.next == ("research",))
        graph.invoke(None, earlier.config)
    assert tokens(path, "model") == {"big": used(5), "small": used(3)}
    nodes = {"chat": used(2), "research > dig": used(3), "sum": used(3)}
    assert tokens(path, "node") == nodes
    assert tokens(path, "thread").keys() == {"t"}


def test_messages_of_sent_tasks_and_of_the_caller_have_their_names(path: Path) -> None:
    graph: Any = StateGraph(Chat)
    graph.add_node("dig", talk("small"))
    graph.add_conditional_edges(START, lambda _: [Send("dig", ONE), Send("dig", TWO)], ["dig"])
    with running(path, graph) as found:
        found.invoke(ONE, CONFIG)
        found.update_state(CONFIG, talk("big")(None), as_node="dig")
        found.invoke(Command(update=talk("big")(None), goto="dig"), CONFIG)
    assert tokens(path, "node") == {"dig": used(3), "(update_state)": used(1), "(caller)": used(1)}


def test_a_message_counts_once_and_a_state_tells_what_no_write_does(path: Path) -> None:
    usage: Any = {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10}
    dig = {"dig": lambda _: {"messages": [AIMessage("x", usage_metadata=usage)]}}
    run(path, nested(Chat, chain(Chat, dig), "research"), ONE, TWO)
    counted = {"messages": 2, "input": 18, "output": 2, "total": 20}
    assert tokens(path, "thread")["t"] == dict.fromkeys(KINDS, 0) | counted
    with saver_of(path) as saver:
        graph = chain(Chat, {"one": talk("big"), "two": talk("big")}).compile(checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "states only"}}
        graph.invoke(ONE, config, durability="exit")
    assert tokens(path, "model")["big"] == used(2)


def test_prices_are_those_of_the_configuration(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with saver_of(path) as saver:
        agent(saver).invoke(ONE, CONFIG)
    config = path.with_name("ckpt.toml")
    config.write_text(
        f'[stores.here]\nurl = "{path}"\n'
        '[prices]\ncurrency = "EUR"\n[prices."bi*"]\ninput = 2.0\noutput = 10\ncache_read = 0.5\n'
    )
    words = ("--config", config, "-s", "here", "stats", "--by", "model", "-o")
    shown = ckpt(*words, "json", says="no price for small")
    expected = 2 * (93 * 2 + 7 * 0.5 + 10 * 10) / 1_000_000
    assert shown.json["cost"] == pytest.approx(expected, abs=1e-6)
    assert shown.json["currency"] == "EUR"
    costs = {one["model"]: one["cost"] for one in shown.json["by"]}
    assert costs == {"big": shown.json["cost"], "small": None}
    assert "COST EUR" in ckpt(*words, "table").out
    assert "COST" not in ckpt("-s", path, "stats", "--by", "model", "-o", "table").out
    # No file has to be trusted for them.
    monkeypatch.chdir(path.parent)
    config.write_text(
        '[stores.here]\nurl = "store.db"\n[prices."*"]\ninput = 1\noutput = 1\n'
        '[stores.own]\nurl = "store.db"\nprices = {"*" = {input = 2, output = 2}}\n'
    )
    one, own = (ckpt("-s", it, "stats", "-o", "json", "--by", "model") for it in ("here", "own"))
    assert (own.json["cost"], one.err, own.err) == (pytest.approx(2 * one.json["cost"]), "", "")
    assert one.json["cost"] > 0


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
    ckpt("--config", config, "-s", "sqlite:///x.db", "stats", "--by", "model", code=2, says=said)


def test_messages_without_usage_data_are_counted(path: Path) -> None:
    def answer(_state: Any) -> Any:
        said = [AIMessage("one"), AIMessage("two", id="two"), AIMessage("two, more", id="two")]
        said.append(AIMessage("to", id="told"))  # a message that is streamed grows
        told = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        return {"messages": [*said, AIMessage("told", id="told", usage_metadata=told)]}

    given = {"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]}
    run(path, chain(MessagesState, {"answer": answer}), given)
    found = ckpt("-s", path, "stats", "--by", "model", "-o", "json")
    assert (found.json["messages"], found.json["without_usage"]) == (1, 3)
    assert "3 messages of models have no usage data" in found.err


test_wrong_words_are_refused = refusals(
    ("stats --by month", 2, "cannot group by 'month'"),
    ("stats --by channel,model", 2, "cannot group by channel and model"),
    ("stats --time", 2, "use `ckpt"),
    ("stats --tokens", 2, " stats --by model`"),
    ("stats trip-to-kyoto --match c*", 2, "cannot be combined with --match"),
    ("stats --ns x", 2, "--ns requires THREAD"),
)
