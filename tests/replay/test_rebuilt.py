"""Values that are not stored are those that LangGraph rebuilds: in each step, and before it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
)
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, _messages_delta_reducer, add_messages
from langgraph.types import Overwrite
from typing_extensions import TypedDict

from ckpt_backends.codec import decode, to_json
from ckpt_backends.codec.values import Value
from ckpt_backends.model import NULL_TASK_ID, TypedBytes
from ckpt_backends.registry import open_store
from ckpt_cli.core.reducers import fold
from ckpt_cli.reading.states import read_state
from ckpt_cli.reading.thread import ThreadReader
from tests.kit.cases import cases
from tests.kit.command import ckpt

SERDE = JsonPlusSerializer()
CONFIG: Any = {"configurable": {"thread_id": "t"}}
NO_WRITES: dict[str, Any] = {name: [] for name in "abcz"}


def kept_files(left: Any, writes: Sequence[Any]) -> dict[str, Any]:
    """`_file_data_delta_reducer` of Deep Agents 0.6 and 0.7."""
    result = dict(left) if left else {}
    for write in writes:
        for key, value in write.items():
            if value is None:
                result.pop(key, None)
            else:
                result[key] = value
    return result


def kept_messages(state: Any, writes: Sequence[Any]) -> Any:
    """The reducer of messages as it was in LangGraph 1.2.23: there, this id is unknown."""
    lists = [one if isinstance(one, list) else [one] for one in writes]
    known = [[one for one in some if one.id != REMOVE_ALL_MESSAGES] for some in lists]
    return _messages_delta_reducer(state, known)


def joined(left: Any, writes: Sequence[Any]) -> list[Any]:
    return [*(left or []), *(item for write in writes for item in write)]


class State(TypedDict, total=False):
    messages: Annotated[
        list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=7)
    ]
    files: Annotated[dict[str, Any], DeltaChannel(kept_files, snapshot_frequency=7)]
    log: Annotated[list[int], DeltaChannel(joined)]
    plain: Annotated[list[AnyMessage], add_messages]


CALL = {"id": "c9", "type": "function", "function": {"name": "g", "arguments": '{"b": 2}'}}
LIKES: list[Any] = [
    HumanMessage("hi", id="1"),
    AIMessage([{"type": "text", "text": "x"}], id="2"),
    AIMessageChunk(content="", id="3"),
    ToolMessage("x", tool_call_id="c1"),
    ("user", "hi"),
    "a text",
    {"role": "developer", "content": [{"type": "text", "text": "x"}]},
    {"type": "human", "content": "x", "id": "2", "name": "bob", "extra": 1},
    {"role": "assistant", "content": "x", "tool_calls": [CALL]},
]
"""What a node may write for a message."""
REMOVED, CLEARED = RemoveMessage("1"), RemoveMessage(REMOVE_ALL_MESSAGES)
FILE = {"content": ["x"], "modified_at": 1.5}
UPDATES: list[dict[str, Any]] = [
    *({"messages": one, "plain": one} for one in LIKES),
    *({"messages": [one, LIKES[7]], "plain": [LIKES[0], one]} for one in LIKES),
    {"messages": [REMOVED, *LIKES[:3]], "plain": [REMOVED, *LIKES[:3]], "log": [1]},
    {"messages": [LIKES[1], CLEARED, LIKES[0]], "files": {"/a": None, "/b": FILE}},
    {"messages": Overwrite(LIKES[:3]), "plain": Overwrite(LIKES[:3])},
    {"messages": {"__overwrite__": LIKES[3:6]}, "files": Overwrite({"/b": FILE})},
    {"messages": {"type": "__overwrite__", "value": LIKES[4:]}, "files": {"/c": None}},
    {"messages": Overwrite(None), "plain": Overwrite(LIKES[5:])},
]


def built(saver: SqliteSaver, writes: Callable[[str], Any], schema: Any = State) -> Any:
    """Three nodes that run at once, and one after them; `writes` says what each writes."""

    def node(name: str) -> Callable[[Any], Any]:
        return lambda _: writes(name)

    graph: Any = StateGraph(schema)
    for name in "abcz":
        graph.add_node(name, node(name))
    for name in "abc":
        graph.add_edge(START, name)
    graph.add_edge(["a", "b", "c"], "z")
    return graph.add_edge("z", END).compile(checkpointer=saver, interrupt_before=["z"])


@contextmanager
def ran(path: Path, writes: dict[str, Any], given: Any, schema: Any = State) -> Iterator[Any]:
    """Yield a graph that ran to its end on thread `t`; `writes` are those of its nodes."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        app = built(saver, writes.__getitem__, schema)
        app.invoke(given, CONFIG)
        app.invoke(None, CONFIG)
        yield app


def by_messages(**lists: Any) -> dict[str, Any]:
    return {name: {"messages": one} for name, one in {**NO_WRITES, **lists}.items()}


def stored(value: Any) -> Value:
    return decode(TypedBytes(*SERDE.dumps_typed(value)))


def official(app: Any, thread_id: str) -> Iterator[tuple[str, dict[str, Value]]]:
    """The id and the values of each checkpoint; `get_state_history` leaves out pending writes."""
    for state in app.get_state_history({"configurable": {"thread_id": thread_id}}):
        config = state.config
        yield (
            config["configurable"]["checkpoint_id"],
            {name: stored(value) for name, value in app.get_state(config).values.items()},
        )


def without_ids(value: Any) -> Any:
    """A state without the ids that are generated at each load."""
    if isinstance(value, list):
        return [{**one, "id": None} if isinstance(one, dict) else one for one in value]
    return value


def test_writes_of_the_caller_are_merged_as_langgraph_merges_them(path: Path) -> None:
    """They are stored with `Command(update=...)`, and merged each time the state is read."""
    compared = 0
    with SqliteSaver.from_conn_string(str(path)) as saver:
        app = built(saver, lambda _: {})
        seed = [HumanMessage("seed", id="1")]
        given = {"messages": seed, "plain": seed, "files": {"/a": {"content": "x"}}}
        for number, update in enumerate(UPDATES):
            config = {"configurable": {"thread_id": f"t{number}"}}
            app.invoke(given, config)
            saver.put_writes(app.get_state(config).config, [*update.items()], NULL_TASK_ID)
        with open_store(str(path)) as store:
            for number, update in enumerate(UPDATES):
                reader = ThreadReader(store, f"t{number}")
                try:
                    ((checkpoint_id, values), *_) = official(app, f"t{number}")
                except (NotImplementedError, AttributeError):
                    # A pair whose content is a list is stored as a list that LangGraph refuses.
                    continue
                compared += 1
                found = read_state(reader, reader.moment("", checkpoint_id, state=True))
                assert update.keys() <= found.rebuilt.keys()
                for name, value in values.items():
                    if name not in found.values and not value:
                        continue  # nothing was ever written to it
                    got = to_json(found.values.get(name))
                    assert without_ids(got) == without_ids(to_json(value)), (number, name)
    assert compared > 20


GONE, ALL = RemoveMessage("1"), RemoveMessage(REMOVE_ALL_MESSAGES)
ONE, TWO = HumanMessage("one", id="1"), AIMessage("two", id="2")


@cases(
    "writes name value",
    ([{"a.txt": {"content": "x"}}, {"a.txt": None}], "dict_patch", []),
    ([{"/a": None}], "dict_patch", []),
    ([{"name": "x"}, {"name": None}], "dict_merge", ["name"]),
    ([["a"], {"type": "override", "value": ["b"]}, ["c"]], "override", ["b", "c"]),
    ([{"type": "override", "value": {"a": 1}}], "dict_merge", ["type", "value"]),
)
def test_other_libraries_reducers_are_known(writes: list[Any], name: str, value: list[str]) -> None:
    got, reducer = fold(None, [*map(stored, writes)], delta=True)
    assert reducer == name
    assert isinstance(got, list | dict)
    assert [*got] == value


@pytest.fixture
def cleared(path: Path) -> Path:
    """Messages that a summary replaced, and files of which one was removed."""
    writes: dict[str, Any] = {
        "a": {"messages": [AIMessage("a", id="a")], "files": {"/a": {"content": "x"}}},
        "b": {"messages": [AIMessage("b", id="b")], "files": {"/b": {"content": "y"}}},
        "c": {},
        "z": {"messages": [ALL, AIMessage("sum", id="s")], "files": {"/a": None}},
    }
    with ran(path, writes, {"messages": [HumanMessage("q", id="q")]}) as app:
        assert [one.id for one in app.get_state(CONFIG).values["messages"]] == ["s"]
        assert [*app.get_state(CONFIG).values["files"]] == ["/b"]
    return path


def test_a_state_says_which_reducer_was_assumed(cleared: Path) -> None:
    shown = ckpt("-s", cleared, "show", "t", "-o", "json").json
    assert [*shown["values"]["files"]] == ["/b"]
    assert shown["rebuilt"]["files"] == "rebuilt (assumed dict_patch)"
    assert shown["rebuilt"]["messages"] == (
        "rebuilt (assumed add_messages); LangGraph 1.2.23 and earlier read 4 messages"
    )


def test_a_reducer_can_be_told_to_every_command(cleared: Path) -> None:
    words: list[Any] = ["-s", cleared]
    told = ["--reducer", "files=dict_merge", "--reducer", "messages=append"]
    shown = ckpt(*words, *told, "show", "t", "-o", "json").json
    assert shown["values"]["files"]["/a"] is None
    assert shown["rebuilt"]["files"] == "rebuilt (dict_merge, as told)"
    assert len(shown["values"]["messages"]) == 5
    assert len(ckpt(*words, "messages", "t", *told, "-o", "json").json) == 5
    assert ckpt(*words, "diff", "t", *told, "-o", "json").json["channels"]["files"]
    (hit,) = ckpt(*words, "grep", "__remove_all__", *told, "-o", "json").json
    assert hit["in"] != ckpt("-s", cleared, "grep", "__remove_all__", "-o", "json").json[0]["in"]


@pytest.mark.parametrize("where", ["option", "profile"])
def test_the_release_of_the_library_can_be_told(cleared: Path, tmp_path: Path, where: str) -> None:
    words: list[Any] = ["-s", cleared, "--library", "1.2.22"]
    if where == "profile":
        config = tmp_path / "ckpt.toml"
        config.write_text(f'[stores.x]\nurl = "{cleared}"\nlibrary = "1.2.22"\n')
        words = ["--config", config, "-s", "x"]
    shown = ckpt(*words, "show", "t", "-o", "json").json
    assert [one["id"] for one in shown["values"]["messages"]] == ["q", "a", "b", "s"]
    assert shown["rebuilt"]["messages"] == (
        "rebuilt (assumed add_messages) as by LangGraph 1.2.22; 1.2.24 and later read 1 message"
    )
    assert len(ckpt(*words, "messages", "t", "-o", "json").json) == 4
    newest = ckpt(*words, "--library", "1.3", "show", "t", "-o", "json").json
    assert [one["id"] for one in newest["values"]["messages"]] == ["s"]
    for asked in (words, ["-s", cleared]):
        (found,) = ckpt(*asked, "doctor", "t", "-o", "json").json["findings"]
        assert (found["code"], found["channel"]) == ("state-by-library", "messages")
        assert found["severity"] == "warning"
    assert found["detail"] == (
        "'messages' has 1 message as LangGraph 1.2.24 reads it, and 4 as 1.2.23 does"
    )
    ckpt("-s", cleared, "doctor", "--strict", code=1)


def test_what_is_no_release_is_refused(cleared: Path, tmp_path: Path) -> None:
    answer = ckpt("-s", cleared, "show", "t", "--library", "new")
    assert (answer.code, "'new' is not a release of LangGraph" in answer.err) == (2, True)
    config = tmp_path / "ckpt.toml"
    config.write_text(f'[stores.x]\nurl = "{cleared}"\nlibrary = "new"\n')
    answer = ckpt("--config", config, "-s", "x", "show", "t", code=2, says="profile 'x'")


@pytest.mark.parametrize("reducer", [kept_messages, _messages_delta_reducer])
def test_a_snapshot_of_any_release_verifies(path: Path, reducer: Any) -> None:
    channel = Annotated[list[AnyMessage], DeltaChannel(reducer, snapshot_frequency=2)]
    schema = TypedDict("schema", {"messages": channel})  # noqa: UP013 - one for each reducer
    three = AIMessage("three", id="3")
    writes = by_messages(a=[three, GONE], b=[ALL, TWO], c=[ONE], z=[RemoveMessage("3")])
    with ran(path, writes, {"messages": [ONE]}, schema):
        pass
    found = ckpt("-s", path, "replay", "t", "--verify", "-o", "json")
    assert (found.code, found.json["mismatch"]) == (0, 0)
    assert found.json["channels"]["messages"]["reducer"] == (
        "add_messages_1.2.23" if reducer is kept_messages else "add_messages"
    )
    ckpt("-s", path, "doctor", "--deep", code=0)


LOST: Any = AIMessage("", id="3", tool_calls=[{"name": "f", "args": {}, "id": "c1"}])


def test_repair_stores_what_became_of_texts_and_pairs(path: Path) -> None:
    """LangGraph before 1.2.15 stored them as they were written."""
    with ran(path, by_messages(a=[LOST], z=[TWO]), {"messages": [ONE]}) as app:
        written = [("user", "hi"), "a text", {"role": "user", "content": "x", "name": "bob"}]
        connection = app.checkpointer.conn
        connection.execute(
            "UPDATE writes SET type = ?, value = ? WHERE channel = 'messages' AND checkpoint_id ="
            " (SELECT min(checkpoint_id) FROM writes WHERE channel = 'messages')",
            SERDE.dumps_typed(written),
        )
        connection.commit()
        before = app.get_state(CONFIG).values["messages"]
        assert [one.content for one in before[:3]] == ["hi", "a text", "x"]
        assert [one.type for one in before[:3]] == ["human"] * 3
        ckpt("-s", path, "repair", "messages", "t", "--yes", code=0)
        after = app.get_state(CONFIG).values["messages"]
        assert after[:3] == before[:3]
        assert [one.type for one in after[3:]] == ["ai", "tool", "ai"]


def test_a_fork_previews_what_the_reducer_makes(cleared: Path) -> None:
    removal = '[{"type": "remove", "content": "", "id": "zz"}]'
    words = ["fork", "t", "--as", "new", "--set", f"messages={removal}", "--dry-run"]
    assert "remove" not in ckpt("-s", cleared, *words).out.replace("--set", "")
    files = ckpt("-s", cleared, *words[:4], "--set", 'files={"/b": null}', "--dry-run").out
    assert "/b" in files
    assert "null" not in files
