"""Each fault planted into a store of the official saver is found, at its row and nowhere else."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END

from ckpt_backends.sql.store import SqlStore
from ckpt_backends.testing.scenarios import channel_graphs
from ckpt_cli.core.doctor.findings import Severity
from tests.doctor.asking import KEY, findings, sweep_url
from tests.kit.command import ckpt, copy_store
from tests.kit.planting.apart import execute
from tests.kit.planting.steps import SERDE, THREAD, Rows, graph, make_store, talk

CONFIG: Any = {"configurable": {"thread_id": THREAD}}


GARBAGE = b"\xc1"
"""Is never valid msgpack."""


CLOSED = EncryptedSerializer.from_pycryptodome_aes(key=KEY)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("deep") / "store.db"
    make_store(path)
    return path


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("encrypted") / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.serde = CLOSED
        talk(saver)
    return path


@contextmanager
def rows_of(path: Path) -> Iterator[Rows]:
    with closing(sqlite3.connect(path)) as db, db:
        yield Rows(db)


def at(rows: Rows, step: int, sql: str, *values: Any) -> None:
    """Run a statement with the checkpoint of a step as its last parameter."""
    done = rows.db.execute(f"{sql} WHERE checkpoint_id = ?", [*values, rows.ids()[step]])
    assert done.rowcount == 1


def break_write(rows: Rows, step: int, channel: str, *value: Any) -> None:
    where = "WHERE checkpoint_id = ? AND channel = ? AND task_path LIKE '%left'"
    sql = f"UPDATE writes SET type = ?, value = ? {where}"
    done = rows.db.execute(sql, [*(value or ("msgpack", GARBAGE)), rows.ids()[step], channel])
    assert done.rowcount == 1


def break_message(rows: Rows, step: int) -> None:
    """Damage a message inside a body; the rest of the body stays readable."""
    (data,) = rows.db.execute(
        "SELECT checkpoint FROM checkpoints WHERE checkpoint_id = ?", [rows.ids()[step]]
    ).fetchone()
    name = b"langchain_core.messages.ai"
    assert name in data
    broken = data.replace(name, b"\xff" * len(name), 1)
    at(rows, step, "UPDATE checkpoints SET checkpoint = ?", broken)


def put(channel: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda values: values.update({channel: value})


FAULTS: dict[str, tuple[Callable[[Rows], None], tuple[str, int, str | None]]] = {
    "a body cut short": (
        lambda rows: at(rows, 13, "UPDATE checkpoints SET checkpoint = substr(checkpoint, 1, 99)"),
        ("body-unreadable", 13, None),
    ),
    "a message in a body": (
        lambda rows: break_message(rows, 13),
        ("value-unreadable", 13, "messages"),
    ),
    "a deleted write": (lambda rows: rows.drop_write(7, "log"), ("state-mismatch", 8, "log")),
}
"""Those that `tests.kit.planting.faults`, whose faults are planted in each layout, has not."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(clean: Path, tmp_path: Path, name: str) -> None:
    plant, where = FAULTS[name]
    path = copy_store(clean, tmp_path)
    with rows_of(path) as rows:
        steps = {one: step for step, one in rows.ids().items()}
        plant(rows)
    found, unchecked = sweep_url(path)
    assert [(one.code, steps[one.checkpoint_id or ""], one.channel) for one in found] == [where]
    is_mild = found[0].code == "state-mismatch"
    assert found[0].severity is (Severity.WARNING if is_mild else Severity.ERROR)
    assert unchecked == {}


def test_the_command_prints_the_row_and_how_much_was_checked(clean: Path, tmp_path: Path) -> None:
    path = copy_store(clean, tmp_path)
    with rows_of(path) as rows:
        rows.body(8, put("mood", "secret"))
        wrong = rows.ids()[8]
    command = ("-s", path, "doctor", "--deep", "-o", "json")
    young = ckpt(*command, "--strict")
    assert (young.code, young.json["findings"]) == (0, [])  # a write may still be stored
    assert ckpt(*command, "--grace", "0s").code == 0  # a saver can load it
    answer = ckpt(*command, "--grace", "0s", "--strict")
    assert answer.code == 1
    assert "secret" not in answer.out
    (one,) = [one for one in answer.json["findings"] if one["code"] == "state-mismatch"]
    assert (one["checkpoint_id"], one["channel"]) == (wrong, "mood")
    counted = answer.json["checked"]
    assert (counted["checkpoints"], counted["writes"]) == (15, 57)
    assert counted["values"] > 0
    assert ckpt("-s", clean, "doctor", "--deep", "--strict", "--grace", "0s").code == 0


def test_a_reducer_of_the_profile_counts(clean: Path, tmp_path: Path) -> None:
    profile = tmp_path / "ckpt.toml"
    profile.write_text(f'[stores.x]\nurl = "{clean}"\n[stores.x.reducers]\nmood = "append"\n')
    words = ("--config", profile, "-s", "x", "doctor", "--deep", "--grace", "0s", "--strict")
    assert ckpt(*words).code == 1


def test_a_hole_in_the_middle_is_a_warning(clean: Path, tmp_path: Path) -> None:
    path = copy_store(clean, tmp_path)
    with rows_of(path) as rows:
        rows.db.execute("DELETE FROM writes WHERE checkpoint_id = ?", [rows.ids()[6]])
        after = rows.ids()[7]
        at(rows, 6, "DELETE FROM checkpoints")
    found, _ = sweep_url(path)
    assert [(one.code, one.checkpoint_id) for one in found] == [("parent-missing", after)]
    assert found[0].severity is Severity.WARNING
    for words, severity in (([], "info"), (["--deep", "--grace", "0s"], "warning")):
        told = [(one["code"], one["severity"]) for one in findings(path, *words)]
        assert told == [("parent-missing", severity)]


def test_many_holes_are_found_without_reading_the_thread_again(
    clean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy_store(clean, tmp_path)
    with rows_of(path) as rows:
        ids = list(rows.ids().values())
        for checkpoint_id in ids[1:-1:2]:
            for table in ("checkpoints", "writes"):
                sql = f"DELETE FROM {table} WHERE checkpoint_id = ?"
                rows.db.execute(sql, [checkpoint_id])
    asked: list[Any] = []
    read = SqlStore.checkpoints

    def counted(self: Any, *words: Any, **options: Any) -> Any:
        asked.append(options.get("checkpoint_ids"))
        return read(self, *words, **options)

    monkeypatch.setattr(SqlStore, "checkpoints", counted)
    found, _ = sweep_url(path)
    holes = [one for one in found if one.code == "parent-missing"]
    assert len(holes) > 3
    assert 0 < len(asked) < len(holes)


def test_a_pruned_history_is_no_finding(clean: Path, tmp_path: Path) -> None:
    path = copy_store(clean, tmp_path)
    with rows_of(path) as rows:
        oldest = rows.ids()[6]
        for table in ("checkpoints", "writes"):
            rows.db.execute(f"DELETE FROM {table} WHERE checkpoint_id < ?", [oldest])
    assert sweep_url(path) == ([], {})


def test_messages_of_a_delta_channel_that_an_update_lost_are_found(tmp_path: Path) -> None:
    """LangGraph issue 8653: an update takes the channel for empty, and stores a snapshot of it."""
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        built = channel_graphs.delta_rarely(saver)
        for word in ("one", "two"):
            human = [HumanMessage(word, id=word)]
            built.invoke({"messages": human, "messages_plain": human}, CONFIG, durability="sync")
        built.update_state(CONFIG, None, as_node=END)
    assert sweep_url(path) == ([], {})
    with rows_of(path) as rows:
        last = max(rows.ids())
        rows.body(last, put("messages", _DeltaSnapshot([])))
        head = rows.ids()[last]
    found, _ = sweep_url(path)
    assert [(one.code, one.checkpoint_id, one.channel, one.detail) for one in found] == [
        ("messages-emptied", head, "messages", "4 messages before, none after")
    ]


def test_messages_that_an_update_removed_are_not(clean: Path, tmp_path: Path) -> None:
    from langchain_core.messages import RemoveMessage
    from langgraph.graph.message import REMOVE_ALL_MESSAGES

    path = copy_store(clean, tmp_path)
    with SqliteSaver.from_conn_string(str(path)) as saver:
        removed = {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES)]}
        graph(saver).update_state(CONFIG, removed, as_node="close")
        assert graph(saver).get_state(CONFIG).values["messages"] == []
    assert sweep_url(path) == ([], {})


def test_plain_rows_of_an_encrypted_thread_are_found(encrypted: Path, tmp_path: Path) -> None:
    for key in (KEY, None):
        path = copy_store(encrypted, tmp_path)
        found, unchecked = sweep_url(path, key)
        assert found == []
        assert (list(unchecked) == [THREAD]) == (key is None)
        with rows_of(path) as rows:
            steps = {one: step for step, one in rows.ids().items()}
            (data,) = rows.db.execute(
                "SELECT checkpoint FROM checkpoints WHERE checkpoint_id = ?", [rows.ids()[5]]
            ).fetchone()
            plain = SERDE.dumps_typed(CLOSED.loads_typed(("msgpack+aes", data)))
            at(rows, 5, "UPDATE checkpoints SET type = ?, checkpoint = ?", *plain)
            break_write(rows, 6, "total", *SERDE.dumps_typed(4))
        found, _ = sweep_url(path, key)
        assert [(one.code, steps[one.checkpoint_id or ""], one.channel) for one in found] == [
            ("plaintext-among-encrypted", 5, None),
            ("plaintext-among-encrypted", 6, "total"),
        ]


def test_a_thread_that_got_its_key_later_is_no_finding(clean: Path, tmp_path: Path) -> None:
    path = copy_store(clean, tmp_path)
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.serde = CLOSED
        talk(saver, turns=1)
    assert sweep_url(path) == ([], {})


def test_a_damaged_value_differs_from_a_wrong_key(encrypted: Path, tmp_path: Path) -> None:
    path = copy_store(encrypted, tmp_path)
    found, unchecked = sweep_url(path, b"fedcba9876543210")
    assert (found, list(unchecked)) == ([], [THREAD])
    with rows_of(path) as rows:
        steps = {one: step for step, one in rows.ids().items()}
        break_write(rows, 6, "total", "msgpack+aes", b"x" * 40)
    found, unchecked = sweep_url(path)
    assert [(one.code, steps[one.checkpoint_id or ""], one.channel) for one in found] == [
        ("value-unreadable", 6, "total")
    ]
    assert unchecked == {}


@pytest.mark.parametrize("tag", ["mine", None])
def test_a_type_that_official_savers_lack_leaves_the_check_incomplete(
    clean: Path, tmp_path: Path, tag: str | None
) -> None:
    path = copy_store(clean, tmp_path)
    with rows_of(path) as rows:
        rows.db.execute("UPDATE checkpoints SET type = ?", [tag])
    _, unchecked = sweep_url(path)
    what = f"of type '{tag}'" if tag else "without a type"
    assert unchecked == {THREAD: f"official savers cannot read values {what}"}


def test_a_young_value_may_still_be_named_by_a_checkpoint(postgres_url: str) -> None:
    with PostgresSaver.from_conn_string(postgres_url) as saver:
        saver.setup()
        talk(saver)
    execute(
        postgres_url,
        "INSERT INTO checkpoint_blobs SELECT thread_id, checkpoint_ns, channel, %s, type, blob"
        " FROM checkpoint_blobs WHERE channel = 'facts' LIMIT 1",
        f"{99:032}.0.5",
    )
    assert sweep_url(postgres_url, grace=timedelta(minutes=1)) == ([], {})
    assert [one.code for one in sweep_url(postgres_url)[0]] == ["value-orphaned"]


ROWS = {
    "checkpoint": "UPDATE checkpoints SET type = ?, checkpoint = ? WHERE checkpoint_id = ?",
    "metadata": "UPDATE checkpoints SET type = coalesce(?, type), metadata = ?"
    " WHERE checkpoint_id = ?",
    "write": "UPDATE writes SET type = ?, value = ? WHERE checkpoint_id = ?",
}


TAGS = ("msgpack", "json", "pickle", "bytes", "null", "empty", "msgpack+aes", "int", "")


def mutated(data: bytes, changes: list[tuple[int, int]]) -> bytes:
    """Replace single bytes."""
    found = bytearray(data)
    for place, byte in changes:
        found[place % len(found)] = byte
    return bytes(found)


@example(step=7, row="checkpoint", tag="msgpack", made=b"\xc1")
@example(step=0, row="write", tag="msgpack", made=b"")
@example(step=3, row="metadata", tag="json", made=b'{"step": "x", "parents": []}')
@example(step=3, row="metadata", tag="json", made=b"[]")
@example(step=9, row="checkpoint", tag="msgpack", made=b"\x81\xaechannel_values\x01")
@example(step=9, row="checkpoint", tag="json", made=b'{"channel_versions": {"a": 1e999}}')
@given(
    step=st.integers(0, 14),
    row=st.sampled_from(sorted(ROWS)),
    tag=st.sampled_from(TAGS),
    made=st.binary(max_size=60)
    | st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_garbage_is_survived(clean: Path, step: int, row: str, tag: str, made: Any) -> None:
    with closing(sqlite3.connect(clean)) as db:
        ids = [one for (one,) in db.execute("SELECT checkpoint_id FROM checkpoints ORDER BY 1")]
        saved = list(db.execute("SELECT rowid, type, checkpoint, metadata FROM checkpoints"))
        writes = list(db.execute("SELECT rowid, type, value FROM writes"))
        data = made
        if isinstance(made, list):
            query = "SELECT checkpoint FROM checkpoints WHERE checkpoint_id = ?"
            ((body,),) = db.execute(query, [ids[step]])
            data, tag = mutated(body, made), "msgpack"
        with db:
            db.execute(ROWS[row], [tag, data, ids[step]])
        try:
            found, _ = sweep_url(clean)
        finally:
            with db:
                restore = "UPDATE checkpoints SET type = ?2, checkpoint = ?3, metadata = ?4"
                db.executemany(f"{restore} WHERE rowid = ?1", saved)
                db.executemany("UPDATE writes SET type = ?2, value = ?3 WHERE rowid = ?1", writes)
    for one in found:
        assert one.checkpoint_id in ids
        assert len(one.detail) < 200
