"""A graph that spreads a secret over its thread, and what is left of it."""

import io
import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from operator import add
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.graph import START
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

from ckpt_backends.erasing.formats import MARKER
from ckpt_backends.registry import open_store
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.library import config_of_thread
from ckpt_backends.testing.scenarios.building import assemble
from ckpt_cli.commands.erase import erase_values
from ckpt_cli.session import Consent, Session

SECRET = "sk-canary-4f1a9c27"
THREAD, OTHER, TWIN = "leaky", "neighbour", "twin"


class Leaky(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    card: dict[str, Any]
    pin: int
    sums: Annotated[list[dict[str, int]], add]
    log: Annotated[list[str], add]
    answer: str


def graph_of(saver: Any) -> Any:
    """Return a graph that takes a secret from its input, and asks whether to use it."""

    def login(state: Leaky) -> Any:
        secret = state["card"]["password"]
        call = {"name": "login", "args": {"password": secret}, "id": "call-1"}
        return {
            "messages": [
                AIMessage(f"using {secret}", id="ai-1", tool_calls=[call]),
                ToolMessage(f"logged in with {secret}", id="tool-1", tool_call_id="call-1"),
            ],
            "log": [f"login {secret}"],
            "sums": [{"amount": 7}, {"amount": 4999}],
        }

    def ask(state: Leaky) -> Any:
        return {"answer": interrupt({"use": state["card"]["password"]})}

    def note(state: Leaky) -> Any:
        return {"log": [f"noted {state['card']['password']}"]}

    def end(state: Leaky) -> Any:
        return {"log": [f"{state['answer']} {state['card']['password']}"]}

    nodes = {"login": login, "ask": ask, "note": note, "end": end}
    edges = [(START, "login"), ("login", "ask"), ("login", "note"), (["ask", "note"], "end")]
    return assemble(Leaky, nodes, edges).compile(checkpointer=saver)


def config_of(thread_id: str, secret: str) -> Any:
    return {"configurable": {"thread_id": thread_id}, "metadata": {"user": f"user {secret}"}}


@contextmanager
def _saver_of(harness: Harness, saver: Any) -> Iterator[Any]:
    """Yield a saver that is open, or one of the harness."""
    if saver is not None:
        yield saver
        return
    with harness.saver() as own:
        yield own


def ask(harness: Harness, thread_id: str, secret: str, saver: Any = None) -> None:
    """Run a thread until it asks."""
    with _saver_of(harness, saver) as opened:
        graph_of(opened).invoke(
            {
                "messages": [HumanMessage(f"my password is {secret}", id="human-1")],
                "card": {"password": secret, "list": [secret, "other"]},
                "pin": 4711,
                "sums": [{"amount": 7}],
                "log": ["start"],
            },
            config_of(thread_id, secret),
            **harness.run_options,
        )


def erase(
    url: str, *values: str, values_from: str | None = None, dry_run: bool = False, **settings: Any
) -> Any:
    """Erase values of a store. Returns the answer as JSON."""
    session = Session()
    session.settings.update({"store": url, "output": "json", "quiet": True, **settings})
    out = io.StringIO()
    try:
        with redirect_stdout(out):
            session.consent = Consent(dry_run=dry_run, yes=True)
            erase_values(session, values, values_from)
    finally:
        session.close()
    return json.loads(out.getvalue())


def places_of(url: str, thread_id: str, secret: str = SECRET) -> list[str]:
    """Return where a thread's rows have a secret, also in base64."""
    needles = [secret.encode(), *(b64encode(b"\0" * n + secret.encode())[4:-4] for n in range(3))]
    found = []
    with open_store(url) as store:
        for row in store.rows(thread_id):
            for name, cell in row.cells.items():
                data = cell.encode() if isinstance(cell, str) else cell
                if isinstance(data, bytes) and any(one in data for one in needles):
                    found.append(f"{row.table}.{name}")
    return found


def skeleton(url: str, thread_id: str) -> list[Any]:
    """Return all ids and versions of a thread, and the sizes of nothing."""
    from ckpt_cli.core.state import read_body, read_metadata

    found: list[Any] = []
    with open_store(url) as store:
        for ns in store.namespaces(thread_id):
            for one in store.checkpoints(thread_id, checkpoint_ns=ns, body=True, metadata=True):
                body, metadata = read_body(one), read_metadata(one)
                known = {name: metadata.get(name) for name in ("source", "step", "parents")}
                found.append(
                    (one.key, one.parent_checkpoint_id, body.ts, body.versions, body.seen, known)
                )
            for write in store.writes(thread_id, checkpoint_ns=ns):
                found.append((write.key, write.task_id, write.idx, write.channel))
    return found


def replaced(value: Any) -> Any:
    """Return what becomes of a value, of the kinds that the graph has."""
    if isinstance(value, str):
        return value.replace(SECRET, MARKER)
    if isinstance(value, dict):
        return {key: replaced(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(replaced, value))
    if hasattr(value, "model_copy"):
        return type(value).model_validate(replaced(value.model_dump()))
    return value


def history(harness: Harness, thread_id: str, saver: Any = None) -> list[Any]:
    """Return the states of a thread, as the official library reads them."""
    with _saver_of(harness, saver) as opened:
        graph = graph_of(opened)
        if not (harness.has_history and harness.has_writes):
            states: Iterator[Any] | Sequence[Any] = [graph.get_state(config_of_thread(thread_id))]
        else:
            states = graph.get_state_history(config_of_thread(thread_id))
        return [
            (
                one.config["configurable"].get("checkpoint_id"),
                dict(one.values),
                one.next,
                [
                    (task.id, task.name, [ask.value for ask in task.interrupts])
                    for task in one.tasks
                ],
            )
            for one in states
        ]


def resumed(harness: Harness, thread_id: str, saver: Any = None) -> Any:
    """Answer the question of a thread. Returns the state at its end."""
    with _saver_of(harness, saver) as opened:
        graph = graph_of(opened)
        config = config_of(thread_id, "x")
        found = graph.invoke(Command(resume="yes"), config, **harness.run_options)
        return {name: one for name, one in found.items() if name != "__interrupt__"}
