"""The table `messages`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from ckpt_backends.codec import decode
from ckpt_backends.errors import NotFound, Unreadable
from ckpt_backends.model import Thread
from ckpt_cli.core.conversation.messages import Message, as_message, content_text
from ckpt_cli.core.conversation.transcript import Turn, message_list
from ckpt_cli.queries.messages import Conversation, conversation
from ckpt_cli.render.messages import message_records
from ckpt_cli.render.terminal.units import optional_iso
from ckpt_cli.sql.tables.table import Need, QueryTable, SqlColumn, SqlRow, TableReading
from ckpt_cli.threads.target import Target
from ckpt_cli.threads.thread import ThreadReader


def _rows(reading: TableReading, threads: Sequence[Thread]) -> Iterator[SqlRow]:
    for reader in reading.readers(threads):
        head = reader.thread.head
        if head is None:
            continue
        try:
            found = conversation(Target(reader, "", head, chosen=False), None)
        except (NotFound, Unreadable):
            continue
        times = _Times(reader, found) if "ts" in reading.columns else None
        for turn, record in zip(found.turns, message_records(found.turns, 0), strict=True):
            usage = record["usage"] or {}
            yield {
                "thread_id": reader.thread_id,
                "checkpoint_id": head,
                "channel": found.channel,
                **record,
                "text": content_text(turn.message.content),
                "ts": None if times is None else optional_iso(times.of(turn)),
                **{f"{kind}_tokens": usage.get(kind) for kind in ("input", "output", "total")},
            }


class _Times:
    """When each message of a conversation was first written, as far as the writes tell."""

    def __init__(self, reader: ThreadReader, found: Conversation) -> None:
        times = reader.times("")
        self._by_id: dict[str, datetime] = {}
        self._nameless: dict[tuple[str, str], datetime] = {}
        for write in reader.store.writes(
            reader.thread_id, checkpoint_ns="", channels=[found.channel], values=True
        ):
            at = write.at or times.get(write.key.checkpoint_id)
            if at is not None and write.value is not None:
                for message in map(as_message, message_list(decode(write.value)) or ()):
                    if message is not None:
                        self._add(message, at)

    def _add(self, message: Message, at: datetime) -> None:
        if message.id is not None:
            self._by_id[message.id] = min(at, self._by_id.get(message.id, at))
        else:
            held = _contents(message)
            self._nameless[held] = min(at, self._nameless.get(held, at))

    def of(self, turn: Turn) -> datetime | None:
        """Return the time of a message; one that got its id later is told by what it says."""
        message = as_message(turn.value) or turn.message
        if message.id is not None and message.id in self._by_id:
            return self._by_id[message.id]
        return self._nameless.get(_contents(message))


def _contents(message: Message) -> tuple[str, str]:
    return message.role, repr(message.content)


_VALUE = Need.VALUE

MESSAGES = QueryTable(
    "messages",
    "Messages of the conversation at each thread's head, as `messages` prints them.",
    (
        SqlColumn("thread_id", "VARCHAR", "Thread.", _VALUE),
        SqlColumn("checkpoint_id", "VARCHAR", "The head.", _VALUE),
        SqlColumn("channel", "VARCHAR", "Channel that holds the conversation.", _VALUE),
        SqlColumn("index", "BIGINT", "Place in the conversation, from 0.", _VALUE),
        SqlColumn("id", "VARCHAR", "Id of the message.", _VALUE),
        SqlColumn("role", "VARCHAR", "human, ai, tool, system, ...", _VALUE),
        SqlColumn("name", "VARCHAR", "Name, such as that of a tool.", _VALUE),
        SqlColumn("text", "VARCHAR", "Text of the content; other parts as [type].", _VALUE),
        SqlColumn("content", "JSON", "Content: a text, or a list of blocks.", _VALUE),
        SqlColumn("tool_calls", "JSON", "Tool calls with their results, a list.", _VALUE),
        SqlColumn("tool_call_id", "VARCHAR", "Tool call that it answers.", _VALUE),
        SqlColumn("model", "VARCHAR", "Model that made it.", _VALUE),
        SqlColumn("input_tokens", "BIGINT", "Tokens of the prompt.", _VALUE, "tokens"),
        SqlColumn("output_tokens", "BIGINT", "Tokens of the answer.", _VALUE, "tokens"),
        SqlColumn("total_tokens", "BIGINT", "Both.", _VALUE, "tokens"),
        SqlColumn(
            "ts",
            "TIMESTAMPTZ",
            "Start of the step that wrote it first; NULL if no stored write tells it.",
            _VALUE,
        ),
    ),
    _rows,
    commands="messages",
)
