"""`ckpt secrets` finds what official savers stored, says where, and never prints it."""

import json
import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.store.sqlite import SqliteStore
from langgraph.types import interrupt

import ckpt_cli
from tests.kit.cases import cases
from tests.kit.command import ckpt
from tests.secrets.credentials import credentials, inside

THREAD = "user-42"
KNOWN = credentials()
BY_NAME = {
    "password": "Tr0ub4dor&3",
    "api-key": "q8Zk31mPq0LxW9aTt5",
    "secret-key": "V1StGXR8_Z5jdHi6B-myT",
    "access-token": "ya29zX81mPq0LxW9aTt5",
}
URL = "postgresql://reader:" + BY_NAME["password"].replace("&", "-") + "@db.internal:5432/agents"


def planted() -> dict[str, Any]:
    """Each kind once, in some place of the state."""
    kinds = dict(KNOWN)
    one = kinds.pop
    config: dict[str, Any] = {
        "db": {"password": BY_NAME["password"], "url": URL},
        "clientSecret": BY_NAME["secret-key"],
        "headers": [{"name": "x-api-key", "value": BY_NAME["api-key"]}],
        "keys": {one("github-token"): "in a key"},
    }
    places = {
        "config": config,
        "input": f"my key is {one('openai-key')}, keep it",
        "answer": f"Use `{one('anthropic-key')}`.",
        "args": {"auth": {"access_token": BY_NAME["access-token"]}, "jwt": one("jwt")},
        "result": json.dumps({"pem": one("private-key"), "hook": one("slack-webhook")}),
        "line": f"AWS: {one('aws-access-key')} (us-east-1)",
        "blob": b"\x00\xff" + one("stripe-key").encode() + b"\x00",
        "question": [one("telegram-token")],
        "metadata": one("langsmith-key"),
        "item": {"facts": [one("sendgrid-key"), {"deep": one("azure-storage-key")}]},
    }
    config["others"] = kinds
    return places


def secret_texts() -> list[str]:
    """Texts of which none may be printed."""
    return [*(inside(kind, text) for kind, text in KNOWN.items()), *BY_NAME.values(), URL[20:31]]


class Leaky(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    config: dict[str, Any]
    log: Annotated[list[str], operator.add]
    blob: bytes
    asked: str


def run(saver: Any, planted: dict[str, Any]) -> None:
    """Run a graph that puts what is planted where agents put it, and stops at a question."""

    def connect(_: Leaky) -> Leaky:
        call = {"name": "call", "args": planted["args"], "id": "call-1"}
        return {
            "messages": [AIMessage(planted["answer"], id="m-ai", tool_calls=[call])],
            "config": planted["config"],
        }

    def use(_: Leaky) -> Leaky:
        return {
            "messages": [ToolMessage(planted["result"], tool_call_id="call-1", id="m-tool")],
            "log": [planted["line"]],
            "blob": planted["blob"],
        }

    def ask(_: Leaky) -> Leaky:
        return {"asked": interrupt({"draft": planted["question"]})}

    graph: Any = StateGraph(Leaky)
    graph.add_sequence([connect, use, ask])
    graph.add_edge(START, "connect")
    graph.compile(checkpointer=saver).invoke(
        {"messages": [HumanMessage(planted["input"], id="m-human")]},
        {"configurable": {"thread_id": THREAD}, "metadata": {"session": planted["metadata"]}},
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with a thread, and with an item of long-term memory."""
    path, given = tmp_path_factory.mktemp("secrets") / "leaky.db", planted()
    with SqliteSaver.from_conn_string(str(path)) as saver:
        run(saver, given)
    with SqliteStore.from_conn_string(str(path)) as items:
        items.setup()
        items.put(("users", "anna"), "profile", given["item"])
    return path


@pytest.fixture(scope="module")
def found(store: Path) -> list[dict[str, Any]]:
    answer = ckpt("-s", store, "secrets", "-o", "json")
    assert answer.code == 1, answer.err
    records: list[dict[str, Any]] = json.loads(answer.out)
    return records


def test_every_kind_is_found(found: list[dict[str, Any]]) -> None:
    kinds = {one["kind"] for one in found}
    assert len(kinds) > 30
    assert kinds == {*KNOWN, *BY_NAME, "url-password"}


def test_each_place_is_told_once(found: list[dict[str, Any]]) -> None:
    told = [(one["place"], one["path"], one["kind"]) for one in found]
    for place, path, kind in (
        ("value", "config.db.password", "password"),
        ("value", "config.db.url", "url-password"),
        ("value", "config.clientSecret", "secret-key"),
        ("value", "config.headers[0].value", "api-key"),
        ("value", "config.keys", "github-token"),
        ("value", "messages[0].content", "openai-key"),
        ("value", "messages[1].tool_calls[0].args.auth.access_token", "access-token"),
        ("value", "messages[2].content", "private-key"),
        ("value", "messages[2].content", "slack-webhook"),
        ("value", "log[0]", "aws-access-key"),
        ("value", "blob", "stripe-key"),
        ("write", "__interrupt__[0].value.draft[0]", "telegram-token"),
        ("write", "log[0]", "aws-access-key"),
        ("metadata", "session", "langsmith-key"),
        ("memory", "facts[1].deep", "azure-storage-key"),
    ):
        assert told.count((place, path, kind)) == 1, path


def test_a_value_that_stays_is_one_finding(found: list[dict[str, Any]], store: Path) -> None:
    history = json.loads(ckpt("-s", store, "history", THREAD, "-o", "json").out)
    (one,) = (
        one for one in found if (one["place"], one["path"]) == ("value", "messages[0].content")
    )
    assert one["checkpoint_id"] == history[0]["checkpoint_id"]
    # The first checkpoint has only the input.
    assert one["checkpoints"] == len(history) - 1


def test_a_path_can_be_pasted_and_memory_names_the_item(
    found: list[dict[str, Any]], store: Path
) -> None:
    for one in found:
        if one["place"] == "value":
            target = f"{THREAD}@{one['checkpoint_id']}"
            shown = ckpt("-s", store, "show", target, "--path", one["path"], "-o", "json")
            assert shown.code == 0, (one, shown.err)
            assert one["value"] == f"{target}:{one['path']}"
        elif one["place"] == "write":
            assert one["value"].split(":", 1)[1].startswith(f"write:{one['task_id']}:{one['idx']}:")
        elif one["place"] == "memory":
            assert (one["namespace"], one["key"]) == (["users", "anna"], "profile")
            assert one["thread_id"] is one["value"] is one["checkpoint_id"] is None


@cases(
    "words",
    *("-o table", "-o json", "-o ndjson", "-o tsv", "-v --debug", "--redact -o json", "--jobs 2"),
    *("no-such-thread --debug", "--where values.config.db.password=x --debug"),
)
def test_no_secret_is_printed(store: Path, words: str) -> None:
    answer = ckpt("-s", store, "secrets", *words.split())
    for text in secret_texts():
        assert text not in answer.out + answer.err


def test_several_processes_and_python_code_give_the_same_answer(
    store: Path, found: list[dict[str, Any]]
) -> None:
    answer = ckpt("-s", store, "secrets", "--jobs", "2", "-o", "ndjson")
    assert [json.loads(line) for line in answer.out.splitlines()] == found
    with ckpt_cli.open(store) as opened:
        search = opened.secrets()
        assert [one.to_dict() for one in search] == found
        assert search.complete
        kinds = opened.secrets(THREAD, ignore=["*-key", "*-token"])
        assert not any(one["kind"].endswith(("-key", "-token")) for one in kinds)


def test_redacted_paths_keep_no_keys(store: Path) -> None:
    answer = ckpt("-s", store, "secrets", THREAD, "--redact", "-o", "json")
    assert "clientSecret" not in answer.out
    assert all(
        one["path"].startswith(("*", one["channel"] or "*")) for one in json.loads(answer.out)
    )
