"""Answers that a reader who never saw them understands."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ckpt_cli.render.table import Column, table_lines
from ckpt_cli.render.text import Ui
from tests.kit.command import FIXTURES, ckpt, copy_store

NS = "gather:327f5b0c-fb49-2f94-f06b-bcf8dbedd1ac"
INNER = NS + "|search_web:e58bae74-7f73-bd9f-19d7-17113e0f48e8"


def shown(store: Path, *words: str) -> list[str]:
    return ckpt("-s", store, *words, "-o", "table").out.splitlines()


def test_a_pending_thread_is_said_to_run_or_to_have_stopped(sample: Path) -> None:
    lines = shown(sample, "show", "anna@example.com")
    assert "status   pending  (still running, or stopped before it finished)" in lines
    assert "         runs send_mail" in lines
    assert "         first make sure that no run is in progress" in lines


def test_tasks_of_a_failed_step_that_have_not_finished_are_named(sample: Path) -> None:
    lines = shown(sample, "show", "invoice-import")
    assert "next     match_supplier" in lines
    assert "         uses the saved result of extract_lines without running it" in lines


def test_a_thread_begins_with_why_it_stands_and_how_it_goes_on(sample: Path) -> None:
    lines = shown(sample, "show", "invoice-import")
    labels = [one.split(maxsplit=1)[0] for one in lines if one[:1].strip()]
    urgent = ["thread", "status", "next", "error", "resume", "config", "or"]
    whole = ["ckpt", "parent", "step", "created", "active", "size"]
    assert labels == [*urgent, *whole, "file:", "text:"]
    assert "or       ckpt -s " in "\n".join(lines)
    assert "size     2.2 KiB in 3 checkpoints and 8 writes" in lines


def test_an_earlier_checkpoint_shows_only_what_holds_there(sample: Path) -> None:
    lines = shown(sample, "show", "trip-to-kyoto@~1")
    assert not [one for one in lines if one.startswith(("status", "resume", "created", "size"))]
    found = ckpt("-s", sample, "show", "trip-to-kyoto@~1", "-o", "json").json
    assert {"head", "first_at", "checkpoints", "runs", "resume"}.isdisjoint(found)
    for option in (["--long"], ["--memory", "memory.db"]):
        answer = ckpt("-s", sample, "show", "trip-to-kyoto@~1", *option)
        assert (answer.code, answer.out) == (2, "")
        assert "describes a thread, not a checkpoint" in answer.err


def test_json_has_what_needs_more_than_the_head_only_with_long(sample: Path) -> None:
    short, long = (
        ckpt("-s", sample, "show", "trip-to-kyoto", *more, "-o", "json").json
        for more in ([], ["--long"])
    )
    (listed,) = ckpt(*("-s", sample, "threads", "list", "--match", "trip*", "-o", "json")).json
    assert long.keys() - short.keys() == {"bytes", "all_writes", "in_namespaces"}
    assert long == {**long, **short, **{name: listed[name] for name in listed if name != "next"}}
    spaces = [(one["checkpoint_ns"][:7], one["checkpoints"]) for one in long["in_namespaces"]]
    assert (spaces, long["all_writes"]) == ([("", 16), ("planner", 4)], 48)


def test_an_unknown_status_has_a_reason(tmp_path: Path) -> None:
    old = copy_store(FIXTURES / "lg-0.2.14" / "store.db", tmp_path)
    lines = shown(old, "show", "linear")
    assert "next     unknown: this store does not say which nodes read the last values" in lines
    lines = shown(old, "show", "error")
    assert "         runs the failed task again; the store does not say whether others run" in lines


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gather:327f5b0c…", NS),
        ("gather:327f5b0c…|search_web:e58bae74…", INNER),
        ("search_web:e58bae74…", INNER),
    ],
)
def test_a_namespace_is_found_as_it_is_shown(sample: Path, text: str, expected: str) -> None:
    found = ckpt("-s", sample, "show", "research-agent", "--ns", text, "-o", "json").json
    assert found["checkpoint_ns"] == expected


def test_a_page_past_the_end_is_not_called_an_empty_store(sample: Path) -> None:
    assert ckpt("-s", sample, "threads", "list", "--page", "9").err == "note: there is no page 9\n"


def test_a_channel_that_no_compared_checkpoint_has_is_named(sample: Path) -> None:
    answer = ckpt("-s", sample, "diff", "trip-to-kyoto@step:0", "--channel", "hotel")
    assert "note: no channel 'hotel' at these checkpoints\n" in answer.err
    answer = ckpt("-s", sample, "diff", "trip-to-kyoto", "--channel", "hotel")
    assert "no channel" not in answer.err


def test_a_delta_channel_did_not_become_null(sample: Path) -> None:
    lines = shown(sample, "diff", "--writes", "support-live-chat")
    block = lines[lines.index(next(one for one in lines if one.startswith("messages"))) :][:4]
    assert block[1] == "  reducer add_messages, confirmed by 1 step"
    assert block[3] == "  became not stored"


def test_a_write_is_not_called_ignored_where_the_checkpoint_cannot_be_read(tmp_path: Path) -> None:
    store = copy_store(FIXTURES / "lg-1.2.22-serde" / "store.db", tmp_path)
    found = ckpt("-s", store, "diff", "--writes", "aes-chat", "-o", "json").json
    assert [one["effect"] for one in found["others"]] == ["unknown"]


def test_a_column_keeps_its_least_width_and_others_are_left_out() -> None:
    columns = [
        Column("THREAD", "thread"),
        Column("SIZE", "size", drop=2),
        Column("ERROR", "error", cut=True, least=30, drop=1),
    ]
    rows = [{"thread": "user-42", "size": "12 KiB", "error": "e" * 80}]
    head, row = (one.text for one in table_lines(rows, columns, Ui(datetime.now(UTC), width=40)))
    assert head.split() == ["THREAD", "ERROR"]
    assert row == "user-42  " + "e" * 30 + "…"
