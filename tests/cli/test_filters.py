"""`threads list --where`: what it finds in the sample store, what it reads, and its errors."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import MessagesState, StateGraph

from ckpt_backends.base import WrappedStore
from ckpt_backends.model import Checkpoint, CheckpointKey, Thread, ThreadSize
from ckpt_backends.registry import open_store
from ckpt_cli.core.filters import parse_filter
from ckpt_cli.queries.threads import Selection, list_threads, selected_threads
from tests.kit.command import FIXTURES, ckpt
from tests.kit.hostile.corpus import HOSTILE_ID, Row, build_store, ordinary_body

WAITING = {"refund-4711", "anna@example.com"}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["status = error"], {"invoice-import"}),
        (["status in (interrupted, pending)"], WAITING),
        (["not status = done and not status = error"], WAITING),
        (["next = send_mail"], {"anna@example.com"}),
        (["next = match_supplier and not next = extract_lines"], {"invoice-import"}),
        (["next ~ '^(ask|send)_'"], WAITING),
        (["next != null"], WAITING | {"invoice-import"}),
        (["source = update"], {"anna@example.com"}),
        (["question != null"], {"refund-4711"}),
        (["question.options[] = approve and question.order > 4700"], {"refund-4711"}),
        (["question ~ Refund or question.gone != null"], set()),
        (["error ~ 'Error'"], {"invoice-import"}),
        (["first_at > 2000-01-01 and last_at < 2000-01-01"], set()),
        (["step >= 12"], {"trip-to-kyoto", "support-live-chat"}),
        (["checkpoints > 16"], {"trip-to-kyoto", "research-agent"}),
        (["bytes > 20KiB"], {"trip-to-kyoto", "research-agent"}),
        (["thread like '%@%'"], {"anna@example.com"}),
        (["metadata.user_id = mara"], {"trip-to-kyoto"}),
        (["user_id=mara"], {"trip-to-kyoto"}),
        (["metadata.user_id=mara"], {"trip-to-kyoto"}),
        (["metadata.priority >= 2"], {"refund-4711"}),
        (["metadata.priority = '2'"], set()),
        (["values.hotel != null"], {"trip-to-kyoto"}),
        (["values.messages[1].content ~ '(?i)kyoto'"], {"trip-to-kyoto"}),
        (
            ["values.messages[].type = ai", "--where", "bytes < 20KiB"],
            {"refund-4711", "support-live-chat"},
        ),
        (["status = error or values.hotel != null"], {"invoice-import", "trip-to-kyoto"}),
        (["idle < 1s"], set()),
        (["user != null"], set()),
        (["thread like 't%'", "--status", "error"], set()),
    ],
    ids=lambda one: " ".join(one if isinstance(one, list) else sorted(one)),
)
def test_a_filter_finds_threads(sample: Path, words: list[str], found: set[str]) -> None:
    answer = ckpt("-s", sample, "threads", "list", "-o", "json", "--where", *words)
    assert {row["thread_id"] for row in answer.json} == found


def test_a_key_with_dots_is_found_in_quotes(tmp_path: Path) -> None:
    """LangGraph stores what the caller names in the metadata, under any key."""
    builder = StateGraph(MessagesState)
    builder.add_node("a", lambda _: {})
    builder.add_edge("__start__", "a")
    path = str(tmp_path / "dots.db")
    with SqliteSaver.from_conn_string(path) as saver:
        for thread, key in (("dots", "app.user"), ("last", "user"), ("odd", 'a."b"')):
            config: RunnableConfig = {"configurable": {"thread_id": thread}, "metadata": {key: "x"}}
            builder.compile(checkpointer=saver).invoke({"messages": []}, config)
    for text in ('metadata."app.user" = x', "metadata.'app.user'=x", 'not metadata."app.user" = y'):
        listed = ckpt("-s", path, "threads", "list", "--where", text, "-o", "json").json
        assert listed[-1]["thread_id"] == "dots"
        assert len(listed) == (3 if "not" in text else 1)
    erased = ckpt("-s", path, "erase", "--subject", 'metadata."app.user" = x', "--dry-run")
    assert "dots" in erased.out
    assert erased.code == 0, erased.err
    found = ckpt("-s", path, "secrets", "--where", """metadata.'a."b"' = x""")
    assert found.code == 0, found.err


def test_values_that_are_stored_apart_are_read() -> None:
    store = FIXTURES / "dev" / "runtime-0.36.7"
    truth = json.loads((store / "truth.json").read_text("utf-8"))["threads"]
    want = {name for name, one in truth.items() if "deep" in one["history"][0]["values"]["items"]}
    words = ["threads", "list", "-o", "json", "--where", "values.items[] = deep"]
    assert {row["thread_id"] for row in ckpt("-s", store, *words).json} == want
    assert 0 < len(want) < len(truth)


def test_what_cannot_be_read_is_not_null(tmp_path: Path) -> None:
    rows = [
        Row("bad metadata", "metadata", "json", b"{"),
        Row("bad body", "checkpoint", "msgpack", b"\xc1"),
        Row("good", "checkpoint", "msgpack", ordinary_body(HOSTILE_ID)),
    ]
    build_store(tmp_path / "store.db", rows)

    def found(text: str) -> set[str]:
        words = ["threads", "list", "-o", "json", "--where", text]
        listed = ckpt("-s", tmp_path / "store.db", *words).json
        return {row["thread_id"].removeprefix("hostile ") for row in listed}

    assert found("metadata.gone = null") == {"bad body", "good"}
    assert found("metadata.gone != x") == {"bad metadata", "bad body", "good"}
    assert found("values.gone = null") == {"bad metadata", "good"}


def test_ages_are_measured_from_the_oldest_and_the_newest_checkpoint(sample: Path) -> None:
    with open_store(str(sample)) as store:
        thread = next(one for one in store.threads() if one.thread_id == "trip-to-kyoto")
        assert thread.first_at is not None
        assert thread.last_at is not None
        length = (thread.last_at - thread.first_at).total_seconds()
        assert 0.1 < length < 10

        def found(text: str, now: datetime) -> bool:
            wanted = Selection(match="trip-*", where=parse_filter(text))
            return any(True for _ in list_threads(store, wanted, now=now))

        hour_after = thread.last_at + timedelta(hours=1)
        assert found("idle <= 1h and age > 1h", hour_after)
        assert not found("idle > 1h", hour_after)
        assert found("idle > 1h", hour_after + timedelta(seconds=1))


class CountingStore(WrappedStore):
    """Counts the threads of which more than the index is read."""

    def __init__(self, path: Path) -> None:
        super().__init__(open_store(str(path)))
        self.counts: Counter[str] = Counter()

    def checkpoints_at(
        self,
        keys: Sequence[CheckpointKey],
        *,
        body: bool = False,
        metadata: bool = False,
        values: bool | Collection[str] = False,
    ) -> Iterator[Checkpoint]:
        self.counts["heads"] += len(keys)
        return self.inner.checkpoints_at(keys, body=body, metadata=metadata, values=values)

    def sizes(self, thread_ids: Sequence[str]) -> list[ThreadSize]:
        self.counts["sizes"] += len(thread_ids)
        return self.inner.sizes(thread_ids)

    def close(self) -> None:
        self.inner.close()


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("checkpoints > 16", {}),
        ("checkpoints > 16 and status = done", {"heads": 2}),
        ("status = done and checkpoints > 16", {"heads": 2}),
        ("not (checkpoints <= 16 or status = error)", {"heads": 2}),
        ("thread = nobody and values.hotel = x", {}),
        ("bytes > 20KiB", {"sizes": 8}),
        ("bytes > 20KiB and source = update", {"heads": 8, "sizes": 1}),
        ("status = error", {"heads": 1}),
        ("status in (error, interrupted) and thread != nobody", {"heads": 2}),
        ("not (status != interrupted or step < 0)", {"heads": 1}),
        ("status = error or step < 0", {"heads": 8}),
        ("checkpoints > 16 and step > 10 and bytes > 0", {"heads": 2, "sizes": 1}),
    ],
)
def test_only_what_decides_is_read(sample: Path, text: str, counts: dict[str, int]) -> None:
    with CountingStore(sample) as store:
        wanted = Selection(where=parse_filter(text))
        list(list_threads(store, wanted, sizes=False))
        assert dict(store.counts) == counts


def test_threads_that_the_index_excludes_are_not_even_grouped(sample: Path) -> None:
    seen: list[str] = []

    def watch(threads: Iterable[Thread]) -> Iterator[Thread]:
        for thread in threads:
            seen.append(thread.thread_id)
            yield thread

    with open_store(str(sample)) as store:
        wanted = Selection(where=parse_filter("checkpoints > 16 and source = update"))
        assert list(list_threads(store, wanted, watch=watch)) == []
    assert set(seen) == {"trip-to-kyoto", "research-agent"}


@pytest.mark.parametrize(
    ("text", "number"),
    [("checkpoints > 16", 2), ("status = done and checkpoints > 16", 2), ("status = done", 8)],
)
def test_progress_counts_what_is_chosen_or_must_be_read(
    sample: Path, text: str, number: int
) -> None:
    seen: list[str] = []

    def watch(threads: Iterable[Thread]) -> Iterator[Thread]:
        for thread in threads:
            seen.append(thread.thread_id)
            yield thread

    with open_store(str(sample)) as store:
        wanted = Selection(where=parse_filter(text))
        found = list(selected_threads(store, wanted, datetime.now(UTC), watch))
    assert len(seen) == number
    assert {one.thread_id for one in found} <= set(seen)


def test_a_wrong_filter_is_shown_with_a_caret(sample: Path) -> None:
    answer = ckpt("-s", sample, "threads", "list", "--where", "status error")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.splitlines() == [
        "ckpt: cannot read the filter: expected an operator after 'status'",
        "  status error",
        "         ^",
        "hint: operators: = != < <= > >= in like ~",
    ]


@pytest.mark.parametrize(
    ("text", "shown", "above"),
    [
        ("user = '漢字' and x = 1", "user = '漢字' and x = 1", "                  ^"),
        ("user = '\x1b[31m' x", r"user = '\x1b[31m' x", "                  ^"),
        (f"user = {'a' * 200} {'b' * 200}", f"…{'a' * 48} {'b' * 24}…", " " * 50 + "^"),
    ],
    ids=["wide", "escaped", "long"],
)
def test_the_caret_stands_under_the_place(sample: Path, text: str, shown: str, above: str) -> None:
    answer = ckpt("-s", sample, "threads", "list", "--where", text)
    assert answer.err.splitlines()[1:3] == [f"  {shown}", f"  {above}"]


def test_in_json_the_place_is_a_number(sample: Path) -> None:
    answer = ckpt("-s", sample, "-o", "json", "threads", "list", "--where", "status error")
    error = json.loads(answer.err)
    assert (error["error"], error["position"]) == ("usage", 7)


def test_no_thread_matches(sample: Path) -> None:
    answer = ckpt("-s", sample, "threads", "list", "--where", "thread = nobody")
    assert (answer.code, answer.err) == (0, "note: no thread matches\n")


def test_redacted_values_are_compared_and_not_shown(sample: Path) -> None:
    words = ["threads", "list", "-o", "json", "--where", "metadata.user_id = mara"]
    answer = ckpt("-s", sample, "--redact", *words)
    assert [row["thread_id"] for row in answer.json] == ["trip-to-kyoto"]
    assert "mara" not in answer.out


def test_a_list_without_a_filter_does_not_import_the_parser(sample: Path) -> None:
    code = (
        "import sys; from ckpt_cli.run import run; run(sys.argv[1:]);"
        " print([m for m in sys.modules if m == 'lark' or m.startswith('ckpt_cli.core.filters')])"
    )
    words = [sys.executable, "-c", code, "-s", str(sample), "threads", "list"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
