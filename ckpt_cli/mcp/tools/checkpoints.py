"""What the agent knew at a checkpoint, and who wrote it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ckpt_backends.codec import to_json
from ckpt_backends.errors import UsageError
from ckpt_cli.api.store import StoreHandle
from ckpt_cli.core.values.paths import parse_path
from ckpt_cli.mcp.asking import OPEN_HINT, Asked, Tool
from ckpt_cli.mcp.pages import Item
from ckpt_cli.mcp.parameters import CHANNELS, NAMESPACE, REF, THREAD, flag, number, text
from ckpt_cli.mcp.tools.histories import without_versions
from ckpt_cli.queries.messages import last_held
from ckpt_cli.render.messages import message_records


def _show(asked: Asked) -> Iterator[Item]:
    path = asked.get("path")
    if path is not None:
        yield from _at_path(asked, path)
        return
    channels, wants_writes = asked.get("channels"), asked.get("writes", False)
    record = without_versions(asked.checkpoint().show(channels, writes=wants_writes))
    values, writes = record.pop("values"), record.pop("writes", [])
    yield {**record, "channels": list(values)}
    for name, value in values.items():
        yield {"channel": name, "value": _opened(asked, name, value)}
    for write in writes if wants_writes else ():
        yield {"write": write}


def _opened(asked: Asked, channel: str, hidden: Any) -> Any:
    """Return the value of a channel as it may be shown."""
    allowed = asked.store.allowed
    if allowed.values or not allowed.allows([channel]):
        return hidden
    shown = asked.checkpoint(asked.store.whole).show([channel], writes=False)
    return shown["values"][channel]


def _at_path(asked: Asked, path: str) -> Iterator[Item]:
    store = _store_for(asked, path)
    for one in asked.checkpoint(store).select(path):
        yield {"path": path, "value": to_json(one.value)}


def _diff(asked: Asked) -> Iterator[Item]:
    store, channels = asked.store.handle, asked.get("channels")
    record = _compared(asked, store, channels)
    changes: Mapping[str, Any] = record.pop("channels")
    yield {**record, "changed": list(changes)}
    allowed = asked.store.allowed
    for name, change in changes.items():
        if allowed.values or not allowed.allows([name]):
            yield {"channel": name, **change}
        else:
            shown = _compared(asked, asked.store.whole, [name])
            yield {"channel": name, **shown["channels"][name]}


def _compared(asked: Asked, store: Any, channels: Any) -> dict[str, Any]:
    after = asked.checkpoint(store, "to")
    if asked.get("writes", False):
        return dict(after.diff_writes(channels=channels))
    return dict(after.diff(asked.get("from"), channels))


def _messages(asked: Asked) -> Iterator[Item]:
    channel = asked.get("channel")
    name = channel or asked.checkpoint().conversation().channel
    found = asked.checkpoint(asked.store.showing([name])).conversation(name)
    last = asked.get("last")
    skipped = max(len(found.turns) - last, 0) if last else 0
    about: dict[str, Any] = {"channel": found.channel, "messages": len(found.turns)}
    if not found.turns and (before := last_held(asked.checkpoint().target, [name])) is not None:
        about["last_held"] = {"checkpoint_id": before.checkpoint_id, "messages": before.number}
    yield about
    yield from message_records(found.turns[skipped:], skipped)


def _blame(asked: Asked) -> Iterator[Item]:
    path = asked.arguments["path"]
    store = _store_for(asked, path)
    found = asked.checkpoint(store).blame(path).to_dict()
    if not asked.store.allowed.values:
        # The reason of an edit is metadata, which no open channel opens.
        hidden = asked.checkpoint().blame(path).to_dict()
        found = {**found, **{name: hidden[name] for name in ("forked_from", "forked_by", "reason")}}
    yield found


def _store_for(asked: Asked, path: str) -> StoreHandle:
    """Return the store to follow a path in: with values if its channel is open.

    Raises `UsageError` for a key inside a hidden value: that it is there would tell of the value.
    """
    steps = parse_path(path)
    channels = [steps[0]] if steps and isinstance(steps[0], str) else []
    if not asked.store.allowed.allows(channels) and any(isinstance(one, str) for one in steps[1:]):
        raise UsageError(
            "this server hides values, so it cannot look for a key in one", hint=OPEN_HINT
        )
    return asked.store.showing(channels)


_PATH = "A part of the state, such as plan or messages[-1].content; [] stands for each item."

TOOLS = (
    Tool(
        "show",
        "Show a checkpoint",
        "Show the state at a checkpoint: first what it is, what is next and which channels it has,"
        " then one item for each channel. Use path for a part of a large value.",
        {
            "thread": THREAD,
            "ref": REF,
            "ns": NAMESPACE,
            "channels": CHANNELS,
            "path": text(_PATH),
            "writes": flag("Add what the tasks of the next step wrote."),
        },
        _show,
    ),
    Tool(
        "diff",
        "Compare two checkpoints",
        "Tell what changed between two checkpoints of a thread; without from, what the step that"
        " made the checkpoint changed. With writes, which task wrote it.",
        {
            "thread": THREAD,
            "to": REF,
            "from": text("The earlier checkpoint. Default: the one before."),
            "ns": NAMESPACE,
            "channels": CHANNELS,
            "writes": flag("Show the writes of the step next to the values; leave out from."),
        },
        _diff,
    ),
    Tool(
        "messages",
        "Read the conversation",
        "Read the messages of a thread at a checkpoint, with tool calls, their results and tokens.",
        {
            "thread": THREAD,
            "ref": REF,
            "ns": NAMESPACE,
            "channel": text("The channel with the messages, if it is not 'messages'."),
            "last": number("Only this number of messages, the newest.", 1),
        },
        _messages,
    ),
    Tool(
        "blame",
        "Find who set a value",
        "Find the step, the node and the task that set a value. Use it when a value is wrong.",
        {
            "thread": THREAD,
            "path": text("The value, such as plan or messages[-1].content.", required=True),
            "ref": REF,
            "ns": NAMESPACE,
        },
        _blame,
    ),
)
