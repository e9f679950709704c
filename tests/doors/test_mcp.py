"""The official client lists and calls every tool; answers equal those of the commands."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from mcp import Client, MCPError

from tests.doors.mcp_client import Conversation, call, each_tool, items, talk, text_of
from tests.kit.command import SAMPLE, ckpt

THREAD = "trip-to-kyoto"


def without_versions(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: one[key] for key in one if key != "versions"} for one in records]


def test_every_tool_answers_and_changes_nothing(showing: Conversation) -> None:
    before = hashlib.sha256(SAMPLE.read_bytes()).hexdigest()

    async def ask(client: Client) -> dict[str, bool]:
        tools = {one.name: one for one in (await client.list_tools()).tools}
        assert list(tools) == list(dict.fromkeys(tools))
        found = {}
        for name, arguments in each_tool(THREAD):
            tool = tools[name]
            assert tool.description
            assert tool.annotations
            assert tool.annotations.read_only_hint
            assert all(one["description"] for one in tool.input_schema["properties"].values())
            found[name] = (await call(client, name, **arguments)).is_error
        assert found.keys() == tools.keys()
        return found

    failed = showing(ask)
    assert failed == {name: name == "memory" for name in failed}  # the sample has no memory
    assert hashlib.sha256(SAMPLE.read_bytes()).hexdigest() == before


def test_answers_are_those_of_the_commands(showing: Conversation) -> None:
    def command(*words: str) -> Any:
        answer = ckpt("-s", SAMPLE, *words, "-o", "json")
        assert answer.code in {0, 1}, answer.err
        return answer.json

    async def ask(client: Client) -> None:
        assert await items(client, "threads", sizes=True) == command("threads", "list")
        errors = command("threads", "list", "--where", "status = error")
        assert await items(client, "threads", where="status = error", sizes=True) == errors
        history = without_versions(command("history", THREAD, "--all-ns"))
        assert await items(client, "history", thread=THREAD, all_ns=True) == history
        assert await items(client, "interrupts") == command("interrupts")
        assert await items(client, "errors") == command("errors")
        assert await items(client, "errors", by="node") == command("errors", "--by", "node")
        assert await items(client, "grep", pattern="Kyoto") == command("grep", "Kyoto")
        first, *messages = await items(client, "messages", thread=THREAD)
        assert messages == command("messages", THREAD)
        assert first == {"channel": "messages", "messages": len(messages)}
        (blame,) = await items(client, "blame", thread=THREAD, path="hotel")
        assert blame == command("blame", THREAD, "hotel")
        head, *steps = await items(client, "timeline", thread=THREAD)
        assert {**head, "steps": steps} == command("timeline", THREAD)
        shown = command("show", f"{THREAD}@~2")
        first, *channels = await items(client, "show", thread=THREAD, ref="~2")
        assert {one["channel"]: one["value"] for one in channels} == shown["values"]
        assert first["checkpoint_id"] == shown["checkpoint_id"]
        (part,) = await items(client, "show", thread=THREAD, path="messages[-1].content")
        path = command("show", THREAD, "--path", "messages[-1].content")
        assert part == {"path": "messages[-1].content", "value": path}
        changed = command("diff", f"{THREAD}@~1", f"{THREAD}@head")
        _, *changes = await items(client, "diff", thread=THREAD, **{"from": "~1"})
        assert {one.pop("channel"): one for one in changes} == changed["channels"]
        tree = ckpt("-s", SAMPLE, "show", THREAD, "--tree").out.splitlines()
        lines = [one["line"] for one in await items(client, "tree", thread=THREAD)]
        assert [one.split()[:4] for one in lines] == [one.split()[:4] for one in tree]
        *findings, checked = await items(client, "doctor")
        doctor = command("doctor")
        assert findings == doctor["findings"]
        assert checked == {"complete": True, "checked": doctor["checked"]}

    showing(ask)


def test_values_are_hidden_unless_they_are_opened(hiding: Conversation) -> None:
    async def hidden(client: Client) -> str:
        texts = [
            text_of(await call(client, name, **arguments)) for name, arguments in each_tool(THREAD)
        ]
        for telling in (
            'values.destination = "Kyoto"',
            "metadata.user_id = anna",
            "user = anna",
            "question ~ budget",
            "error ~ timeout",
            "step > 1 and not question = x",
        ):
            where = await call(client, "threads", where=telling)
            assert where.is_error, telling
            assert "--channels" in text_of(where)
        assert not (await call(client, "threads", where="status = error and step > 1")).is_error
        for name in ("show", "blame"):
            # Whether a key is there would tell of the value.
            guess = await call(client, name, thread=THREAD, path="messages[-1].content")
            assert guess.is_error
            assert "--channels" in text_of(guess)
        return "\n".join(texts)

    told = hiding(hidden)
    for secret in ("You plan trips", "euros", "Hotel Kanra"):
        assert secret not in told

    async def opened(client: Client) -> None:
        messages = await items(client, "messages", thread=THREAD)
        assert "You plan trips" in json.dumps(messages)
        shown = {one.get("channel"): one for one in await items(client, "show", thread=THREAD)}
        assert "You plan trips" in json.dumps(shown["messages"])
        assert shown["hotel"]["value"]["$type"] == "ckpt.redacted"
        changes = await items(client, "diff", thread=THREAD, to="~1")
        by_channel = {one.get("channel"): json.dumps(one) for one in changes}
        assert "redacted" not in by_channel["messages"]
        (hit, *_) = await items(client, "grep", pattern="euros")
        assert hit["channel"] == "messages"
        for closed in (["hotel"], ["messages", "hotel"]):
            refused = await call(client, "grep", pattern="Hotel", channels=closed)
            assert refused.is_error
        assert not (await call(client, "threads", where="values.messages != null")).is_error

    talk(SAMPLE, opened, "--channels", "messages")


@pytest.mark.engines
def test_pages_hold_the_budget_and_lose_nothing(showing: Conversation) -> None:
    async def ask(client: Client) -> None:
        whole = await items(client, "history", thread=THREAD)
        cursor: dict[str, str] = {}
        pages = []
        while True:
            page = await call(client, "history", thread=THREAD, max_chars=4000, **cursor)
            assert len(text_of(page)) <= 4000
            assert len(json.dumps(page.structured_content, ensure_ascii=False)) <= 4000
            pages.append(page.structured_content["items"])
            if page.structured_content["next_cursor"] is None:
                break
            cursor = {"cursor": page.structured_content["next_cursor"]}
            assert cursor["cursor"] in text_of(page)
        assert len(pages) > 2
        assert [one for page in pages for one in page] == whole
        other = await call(client, "history", thread="refund-4711", **cursor)
        assert other.is_error
        # An item that is too long for a page is shown in parts, which lose nothing.
        parts = await items(client, "show", thread=THREAD, max_chars=1000)
        cut = "".join(
            ("\n" if one["from"] == 0 else "") + one["part"] for one in parts if "part" in one
        )
        joined = {one.get("channel"): one for one in map(json.loads, cut.splitlines()[1:])}
        shown = await items(client, "show", thread=THREAD)
        (stored,) = (one for one in shown if one.get("channel") == "messages")
        assert joined["messages"]["value"] == stored["value"]

    showing(ask)


@pytest.mark.engines
def test_resources_and_prompts(hiding: Conversation) -> None:
    async def ask(client: Client) -> None:
        templates = (await client.list_resource_templates()).resource_templates
        assert {one.uri_template for one in templates} == {
            "ckpt://thread/{thread}",
            "ckpt://thread/{thread}@{ref}",
        }
        assert (await client.list_resources()).resources == []
        (tree,) = (await client.read_resource(f"ckpt://thread/{THREAD}")).contents
        assert "choose_hotel" in tree.text  # type: ignore[union-attr]
        (shown,) = (await client.read_resource(f"ckpt://thread/{THREAD}@step%3A3")).contents
        assert '"step":3' in shown.text  # type: ignore[union-attr]
        with pytest.raises(MCPError, match="no thread"):
            await client.read_resource("ckpt://thread/nobody")
        prompts = {one.name: one for one in (await client.list_prompts()).prompts}
        assert len(prompts) == 2
        for name, prompt in prompts.items():
            given = {one.name: "a; b" for one in prompt.arguments or ()}
            (message,) = (await client.get_prompt(name, given)).messages
            assert "'a; b'" in message.content.text  # type: ignore[union-attr]
            with pytest.raises(MCPError):
                await client.get_prompt(name, {})

    hiding(ask)


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("show", {"thread": THREAD, "store": "/etc/passwd"}, "'store' was unexpected"),
    ("show", {}, "'thread' is a required property"),
    ("history", {"thread": "x" * 3000}, "is too long"),
    ("threads", {"status": ["broken"]}, "is not one of"),
    ("show", {"thread": "nobody"}, "no thread 'nobody'"),
    ("threads", {"where": "status ="}, "filter"),
    ("threads", {"cursor": "bm9uc2Vuc2U"}, "cursor"),
]


def test_wrong_calls_say_what_is_wrong(hiding: Conversation) -> None:
    async def ask(client: Client) -> None:
        for tool, arguments, said in WRONG:
            result = await call(client, tool, **arguments)
            assert result.is_error
            assert said in text_of(result)

    hiding(ask)
