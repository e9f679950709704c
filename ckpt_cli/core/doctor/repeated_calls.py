"""Find a tool that an agent calls again and again with the same arguments."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from ckpt_backends.codec.values import Value
from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.conversation.messages import MODEL_ROLES, Message, as_message, content_blocks
from ckpt_cli.core.doctor.finding import Finding

_MANY = 5
_LONGEST = 80
"""Maximum number of characters of a name in a text."""
_CALLS = ("tool_call", "tool_use", "function_call", "server_tool", "mcp_call")
"""What the type of a content block contains that calls a tool: `tool_use` and `server_tool_use` of
Anthropic, `function_call`, `custom_tool_call` and `mcp_call` of OpenAI's Responses, `tool_call`
and `server_tool_call` of LangChain."""
_RESULTS = ("_result", "_output")
_INNER = ("toolUse", "functionCall", "function_call")
"""Keys of blocks without a type that hold the call: of Bedrock and of Google."""
_IDS = ("call_id", "toolUseId", "id")
"""Keys of a call's id. In OpenAI's Responses, `id` is that of the block."""
_ARGS = ("args", "arguments", "input")

Call = tuple[str, str]
"""A tool's name, and its arguments as a text that is equal for equal arguments."""


def repeated_calls(
    key: CheckpointKey, channel: str, items: Sequence[Value], *, names: bool = True
) -> Iterator[Finding]:
    """Yield each tool of a conversation with a call that is repeated, and how often.

    Texts contain the names of tools only with `names`, and never the arguments.
    """
    calls = Counter(call for item in items for call in calls_of(as_message(item)))
    told: set[str] = set()
    for (name, _), number in calls.most_common():
        if number < _MANY or name in told:
            continue
        told.add(name)
        short = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..."
        tool = f"'{short}'" if names else f"a tool (number {len(told)})"
        yield Finding(
            code="tool-call-repeated",
            detail=f"{tool} was called {number} times with the same arguments",
            thread_id=key.thread_id,
            checkpoint_ns=key.checkpoint_ns,
            checkpoint_id=key.checkpoint_id,
            channel=channel,
        )


def calls_of(message: Message | None) -> Iterator[Call]:
    """Yield the tool calls of a message, each once, in whatever form its provider has them.

    LangChain repeats in `tool_calls` what stands in the content.
    """
    if message is None or message.role not in MODEL_ROLES:
        return
    ids: set[Value] = set()
    known: set[Call] = set()
    for one in message.tool_calls:
        call = one.name, _canonical(one.args)
        if one.id is None or one.id not in ids:
            yield call
        ids.add(one.id)
        known.add(call)
    for block in _blocks(message):
        name = block.get("name")
        if not isinstance(name, str):
            continue
        call = name, _canonical(next((block[one] for one in _ARGS if one in block), None))
        own = {block[one] for one in _IDS if isinstance(block.get(one), str)}
        # A form without ids may repeat one that has them, such as `function_call`.
        if not own & ids and (own or call not in known):
            yield call
        ids |= own
        known.add(call)


def _blocks(message: Message) -> Iterator[dict[Value, Value]]:
    """Yield what calls a tool in the content, and OpenAI's old `function_call` beside it."""
    for one in content_blocks(message):
        kind = one.get("type")
        if isinstance(kind, str):
            if any(part in kind for part in _CALLS) and not kind.endswith(_RESULTS):
                yield one
        else:
            yield from (held for key in _INNER if isinstance(held := one.get(key), dict))
    extra = message.fields.get("additional_kwargs")
    old = extra.get("function_call") if isinstance(extra, dict) else None
    if isinstance(old, dict):
        yield old


def _canonical(args: Value) -> str:
    """Return a text that is equal for equal arguments, parsed or not."""
    if isinstance(args, str) and (text := args.strip()):
        try:
            args = json.loads(text)
        except (ValueError, RecursionError):
            return text
    if not args:
        return "{}"
    try:
        return json.dumps(args, sort_keys=True, default=repr)
    except (TypeError, ValueError, RecursionError):
        return repr(args)
