"""Conversations, paths, names and matches that would deceive a terminal are shown as text."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from ormsgpack import packb

from tests.kit.command import ckpt
from tests.kit.hostile.corpus import DDL, ORDINARY_ID
from tests.kit.hostile.watched import FORBIDDEN

TEXTS = [
    "\x1b[2J\x1b[31mred\x07",
    "\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\",
    "\x9b31m\x85 \x00 \x7f",
    "\u202eevil\u202c \u2066x\u2069 \ufeff",
    "[/INST] [bold]markup[/bold]",
    "a\r\nb\tc\x0bd\u2028e",
    "{0} %s $(id) `id`",
    "x" * 5000,
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "store.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(DDL)
        for number, text in enumerate(TEXTS):
            call = {"name": text, "args": {text: text}, "id": text}
            said = {"content": text, "name": text, "id": text, "tool_calls": [call]}
            told = {"response_metadata": {"model_name": text}, "usage": {"prompt_tokens": 2**62}}
            messages = [
                {"role": text, **said, **told},
                {"role": "tool", "tool_call_id": text, "content": [{"type": text}, text]},
                {"role": "ai", "content": {text: [text]}, "tool_calls": text, "usage": text},
                text,
            ]
            channels = {text: messages, "files": {text: text}}
            versions = dict.fromkeys(channels, "1.0")
            body = {"v": 4, "channel_values": channels, "channel_versions": versions}
            connection.execute(
                "INSERT INTO checkpoints VALUES (?, '', ?, NULL, 'msgpack', ?, '{}')",
                [f"thread {number}", ORDINARY_ID, packb(body)],
            )
        connection.commit()
    return path


@pytest.mark.parametrize("number", range(len(TEXTS)))
@pytest.mark.parametrize("form", ["table", "json", "ndjson", "tsv"])
def test_no_raw_control_character_comes_out(store: Path, number: int, form: str) -> None:
    thread = f"thread {number}"
    for words in (
        ["messages", thread],
        ["messages", thread, "--full"],
        ["messages", thread, "--stat"],
        ["blame", thread, "files"],
        ["grep", ".", "--match", thread],
        ["du", thread],
        ["du", thread, "--by", "channel"],
    ):
        answer = ckpt("-s", store, *words, "-o", form)
        assert answer.code == 0, (words, answer.err)
        assert answer.out
        for text in (answer.out, answer.err):
            found = FORBIDDEN.search(text)
            assert found is None, (words, text[max(found.start() - 40, 0) : found.end() + 40])
