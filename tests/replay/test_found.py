"""What `replay` and `diff --writes` say of a mismatch, and which writes they miss."""

import sqlite3
from contextlib import closing
from operator import add
from pathlib import Path
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from tests.kit.agents.small import chain, run
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, ckpt, copy_store, first_now
from tests.kit.planting.steps import Rows


class Ticks(TypedDict):
    log: Annotated[list[dict[str, Any]], add]


def tick(state: Ticks) -> Any:
    number = len(state["log"])
    return {"log": [{"note": f"tick {n}"} for n in range(number, number + 50)]}


@pytest.fixture
def forged(path: Path) -> tuple[Path, str]:
    """A long list in which one text was changed in the newest checkpoint, and that one's id."""
    run(path, chain(Ticks, {"tick": tick}), *[{"log": []}] * 3)
    with closing(sqlite3.connect(path)) as db, db:
        rows = Rows(db)
        step, head = max(rows.ids().items())
        rows.body(step, lambda values: values["log"][149].update(note="tick 999"))
    return path, head


WHERE = '[149].note: "tick 149" ≠ "tick 999"'


def test_where_a_value_differs_is_said(forged: tuple[Path, str]) -> None:
    path, head = forged
    shown = ckpt("-s", path, "diff", "--writes", f"t@{head}", "-o", "table")
    assert f"differs {WHERE}" in shown.out
    told = ckpt("-s", path, "diff", "--writes", f"t@{head}", "-o", "json").json["channels"]["log"]
    place = {"op": "replace", "path": "[149].note", "rebuilt": "tick 149", "stored": "tick 999"}
    assert told["verdict"] == "mismatch"
    assert told["differences"] == {"places": [place], "more": 0}
    shown = ckpt("-s", path, "replay", "t", "--verify", "-o", "table")
    assert shown.code == 1
    assert f"stored value differs from what append produces: {WHERE}" in shown.out
    look = f"`ckpt -s {path} diff --writes t@{head}` shows the first difference"
    assert look in shown.err
    assert ckpt("-s", path, "replay", "t", "--verify", "--all-steps").code == 1
    plain = ckpt("-s", path, "replay", "t", "-o", "table")
    assert (plain.code, plain.out, look in plain.err) == (0, shown.out, True)
    steps = ckpt("-s", path, "replay", "t", "--all-steps", "-o", "json").json
    (row,) = [one for one in steps if one["verdict"] == "mismatch"]
    assert (row["child"], row["differences"]["places"]) == (head, [place])


@cases("words", ["replay", "t"], ["replay", "t", "--all-steps"], ["diff", "--writes", "t"])
def test_no_value_is_told_where_values_are_redacted(
    forged: tuple[Path, str], words: list[str]
) -> None:
    answer = ckpt("-s", forged[0], "--redact", *words, "-o", "json")
    assert "mismatch" in answer.out
    assert "tick 999" not in answer.out
    assert "tick 149" not in answer.out


def test_strict_fails_on_what_cannot_be_verified(sample: Path) -> None:
    with sqlite3.connect(sample) as connection:
        connection.execute("DELETE FROM writes WHERE thread_id = 'refund-4711'")
    assert ckpt("-s", sample, "replay", "refund-4711", "--verify").code == 0
    report = ckpt("-s", sample, "replay", "refund-4711", "--strict", "-o", "json")
    assert (report.code, report.json["mismatch"], report.json["unverifiable"] > 0) == (1, 0, True)
    for words in (["--all"], ["--match", "refund*"]):
        assert ckpt("-s", sample, "replay", *words, "--verify").code == 0
        assert ckpt("-s", sample, "replay", *words, "--strict").code == 1
    assert ckpt("-s", sample, "replay", "trip-to-kyoto", "--strict").code == 0


FORMAT_1 = FIXTURES / "lg-0.2.14" / "store.db"
LATER = """FROM writes AS w WHERE thread_id = ? AND channel NOT LIKE '\\_\\_%' ESCAPE '\\'
    AND EXISTS (SELECT 1 FROM checkpoints AS c WHERE c.parent_checkpoint_id = w.checkpoint_id
        AND c.thread_id = w.thread_id AND c.checkpoint_ns = w.checkpoint_ns)"""


@pytest.mark.in_ci("subgraph", "async")
@pytest.mark.parametrize(
    "thread", first_now(["alice@example.com", "subgraph", "reducers", "async-join"])
)
def test_a_write_taken_out_of_a_step_of_format_1_is_found(thread: str, tmp_path: Path) -> None:
    path = copy_store(FORMAT_1, tmp_path)
    assert ckpt("-s", path, "replay", thread, "--verify").code == 0
    silent = []
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute(f"SELECT rowid, channel {LATER}", (thread,)).fetchall()
        assert len(rows) > 3
        for rowid, channel in rows:
            db.execute("CREATE TEMP TABLE gone AS SELECT * FROM writes WHERE rowid = ?", (rowid,))
            db.execute("DELETE FROM writes WHERE rowid = ?", (rowid,))
            db.commit()
            report = ckpt("-s", path, "replay", thread, "--strict", "-o", "json").json
            if not report["findings"]:
                silent.append(channel)
            db.execute("INSERT INTO writes SELECT * FROM gone")
            db.execute("DROP TABLE gone")
            db.commit()
    assert silent == []


def test_a_reducer_of_an_unknown_channel_and_an_unknown_reducer_are_refused(sample: Path) -> None:
    for words in (["replay"], ["diff", "--writes"]):
        run: list[str | Path] = ["-s", sample, *words, "trip-to-kyoto", "--reducer"]
        answer = ckpt(*run, "mesages=append")
        assert (answer.code, answer.out, "no channel 'mesages'" in answer.err) == (3, "", True)
        assert "did you mean 'messages'" in answer.err
        answer = ckpt(*run, "messages=apend")
        assert (answer.code, "no reducer 'apend' for channel 'messages'" in answer.err) == (2, True)
        assert "did you mean 'append'" in answer.err
        assert ckpt(*run, "messages=add_messages").code == 0
    assert ckpt("-s", sample, "replay", "--all", "--reducer", "mesages=append").code == 3
    assert ckpt("-s", sample, "replay", "--all", "--reducer", "messages=add_messages").code == 0


def test_any_order_of_the_writes_between_two_snapshots_may_be_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run of LangGraph.js takes them as its saver returns them, in whatever order."""
    path = copy_store(FIXTURES / "js-1.7.3" / "store.db", tmp_path)
    with closing(sqlite3.connect(path)) as db:

        def write(text: str, other: str) -> None:
            where = "thread_id = 'delta-often' AND channel = 'items' AND value = ?"
            rows = (f'["{other}"]'.encode(), f'["{text}"]'.encode())
            assert db.execute(f"UPDATE writes SET value = ? WHERE {where}", rows).rowcount == 1
            db.commit()

        for pair in (("left 7", "?"), ("right 7", "left 7"), ("?", "right 7")):
            write(*pair)
        words = ("-s", path, "replay", "delta-often", "--verify", "-o", "json")
        swapped = ckpt(*words)
        assert (swapped.code, swapped.json["mismatch"], swapped.json["assumed"]) == (0, 0, 1)
        write("right 7", "other")
        assert ckpt(*words).code == 1
        for bound in ("_PERMUTED_TASKS", "_KEPT_ORDERS"):
            with monkeypatch.context() as patch:
                patch.setattr(f"ckpt_cli.core.replay.{bound}", 1)
                unsure = ckpt(*words)
            reasons = {one["reason"] for one in unsure.json["findings"] if one["step"] == 10}
            assert "the order of the writes since its last snapshot is not stored" in reasons
            assert unsure.code == 0
