"""The insurance conversation in three tables, in both readings, on each engine that has them."""

import re
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from ckpt_backends.registry import open_store
from tests.kit.command import CommandResult, ckpt, first_now
from tests.kit.harness.three_table import MAKER, MARKS, connected, engine_of

THREAD = "thread_abc123"


class Told:
    """A store with the conversation."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = engine_of(url)

    def fill(self, **how: Any) -> None:
        with connected(self.url) as execute:
            MAKER.fill(self.engine, execute, mark=MARKS[self.engine], **how)

    def run(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with connected(self.url) as execute:
            found = execute(query.replace("?", MARKS[self.engine]), list(values))
            return list(found.fetchall()) if found.description else []

    def ckpt(self, *words: str | Path) -> CommandResult:
        return ckpt("-s", self.url, *map(str, words))

    def json(self, *words: str | Path) -> Any:
        return self.ckpt(*words, "-o", "json").json

    def table(self, *words: str | Path) -> str:
        return self.ckpt(*words, "-o", "table").out

    def hash_of(self, checkpoint_id: str) -> Any:
        query = "SELECT checkpoint_ns_hash FROM checkpoints WHERE checkpoint_id = ?"
        ((found,),) = self.run(query, checkpoint_id)
        return found

    def lose(self, checkpoint_id: str) -> None:
        """Remove the values of a checkpoint."""
        query = "DELETE FROM checkpoint_blobs WHERE checkpoint_ns_hash = ?"
        self.run(query, self.hash_of(checkpoint_id))

    def everything(self) -> dict[str, list[str]]:
        names = ("checkpoints", "checkpoint_writes", "checkpoint_blobs")
        return {name: sorted(map(repr, self.run(f"SELECT * FROM {name}"))) for name in names}


@pytest.fixture(params=first_now(["sqlite", "postgresql", "mysql"]))
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Told:
    """A database of each engine without tables."""
    if request.param == "sqlite":
        return Told(str(tmp_path / "store.db"))
    name = {"postgresql": "postgres_url", "mysql": "mysql_url"}[request.param]
    return Told(request.getfixturevalue(name))


@pytest.fixture
def file(tmp_path: Path) -> Told:
    return Told(str(tmp_path / "store.db"))


def contents(values: dict[str, Any]) -> list[str]:
    return [one["content"] for one in values["messages"]]


THIRD = f"{THREAD}@ckpt_003"


SAID = ["你好", "您好!我是您的保险顾问", "为您推荐百万医疗险..."]
LAST = "百万医疗险,每年 399 元。需要我帮您投保吗?"
CONTEXT = {"intent": "medical_insurance", "age": 28, "budget": 5000}
PRODUCT = [{"product_id": "M001", "name": "百万医疗", "price": 399}]


def test_what_is_not_stored_is_told_and_the_trace_has_times(file: Told) -> None:
    file.fill()
    for command in ("show", "diff"):
        out = file.table(command, THREAD)
        assert re.search(r"step +[?]( {2}|\n)", out), command
        assert "None" not in out
    out = file.table("--utc", "show", THIRD, "--writes")
    trace = out[out.index("writes  5") :].splitlines()[1:]
    assert [one.split("  [")[0].split("  {")[0] for one in trace] == [
        "  10:00:30.100  retrieve_context   user_context           256 B",
        "  10:00:30.200  retrieve_context   extracted_entities     128 B",
        "  10:00:31.500  search_products    search_results       2.0 KiB",
        "  10:00:31.600  search_products    tool_calls             512 B",
        "  10:00:32.000  generate_response  messages             1.0 KiB",
    ]
    # A checkpoint without its values is not shown as an empty one.
    untracked = ["extracted_entities", "tool_calls"]
    assert file.json("show", THIRD)["unstored"] == untracked
    assert "unstored" not in file.json("show", f"{THREAD}@ckpt_002")
    file.lose("ckpt_003")
    lost = sorted([*untracked, "messages", "search_results", "user_context"])
    assert file.json("show", THIRD)["unstored"] == lost
    # What is lost was not saved by merging.
    assert "merging saved" not in file.table("diff", "--writes", THIRD)


def test_a_subgraph_may_count_by_itself(file: Told) -> None:
    file.fill()
    for n in (1, 2):
        file.run(
            "INSERT INTO checkpoints VALUES (?, ?, NULL, 'search', ?, ?, NULL)",
            *(THREAD, f"sub_00{n}", f"{n}" * 32, "2026-04-07 10:00:31.500"),
        )
    # An edge is no change of the state.
    file.run("UPDATE checkpoint_writes SET channel = 'branch:to:x' WHERE channel = 'tool_calls'")
    tree = file.table("show", THREAD, "--tree", "--ascii")
    assert all(name in tree for name in ("ckpt_004 ", "sub_001 ", "sub_002 ", "extracted_entities"))
    assert "branch" not in tree
    assert file.json("rollback", THREAD, "ckpt_002", "--yes")["checkpoint_id"] == "ckpt_005"
    assert file.ckpt("undo", THREAD, "--yes").code == 0
    # A copy cannot be undone: no row says that it is one.
    copied = file.json("copy", THREAD, "--at", "ckpt_002", "--as", "copy", "--dry-run")
    assert copied["undo"] is None
    assert file.ckpt("copy", THREAD, "--at", "ckpt_002", "--as", "copy", "--yes").code == 0


def test_what_was_written_stands_beside_what_it_became(file: Told) -> None:
    file.fill()
    found = file.json("diff", THIRD, "--writes")
    assert (found["checkpoint_id"], found["child"]) == ("ckpt_002", "ckpt_003")
    stored = {"writes": 5, "written_bytes": 3968, "values": 3, "value_bytes": 3072}
    assert found["stored"] == {**stored, "merged_away": 0.2258}
    channels = found["channels"]
    assert {name: one["verdict"] for name, one in channels.items()} == dict.fromkeys(
        ("extracted_entities", "messages", "search_results", "tool_calls", "user_context"), "match"
    )
    assert channels["messages"]["reducer"] == "add_messages"
    (said,) = channels["messages"]["writes"]
    assert (said["node"], said["added"]) == ("generate_response", 1)
    assert [one["content"] for one in channels["messages"]["before"]] == SAID[:2]
    assert "merging saved 22.6%" in file.table("diff", THIRD, "--writes")
    nodes = {one["node"]: one["writes"] for one in file.json("stats")["nodes"]}
    assert (nodes["retrieve_context"], nodes["search_products"]) == (2, 2)
    assert file.json("stats", "--since", "2026-04-07T10:00:31+00:00")["writes"] == 4
    assert file.json("stats", "--match", "other_*")["writes"] == 0
    # A first checkpoint is made of its own writes.
    file.run("DELETE FROM checkpoints WHERE checkpoint_id = 'ckpt_001'")
    file.run("UPDATE checkpoints SET parent_checkpoint_id = NULL WHERE checkpoint_id = 'ckpt_002'")
    found = file.json("diff", f"{THREAD}@ckpt_002", "--writes")
    assert found["checkpoint_id"] is None
    messages = found["channels"]["messages"]
    assert messages["verdict"] == "match"
    assert [one["node"] for one in messages["writes"]] == ["handle_greeting", "generate_response"]


def test_values_whose_save_failed_are_rebuilt_from_what_was_written(empty: Told) -> None:
    empty.fill(final=False)
    before = empty.json("show", THREAD)["values"]
    empty.lose("ckpt_003")
    assert empty.ckpt("replay", THREAD, "--verify").code == 1
    damaged, last = empty.everything(), ("extracted_entities", "tool_calls")
    words = [f"--reducer={name}=last_value" for name in ("user_context", "search_results", *last)]
    words += ["--reducer", "messages=add_messages"]
    done = empty.json("replay", THREAD, "--repair", "--yes", *words)
    assert {one["channel"] for one in done["repaired"]} == {*before, *last}, done
    values = empty.json("show", THREAD)["values"]
    assert {name: values[name] for name in before} == before
    assert empty.ckpt("replay", THREAD, "--verify").code == 0
    assert empty.ckpt("undo", THREAD, "--yes").code == 0
    assert empty.everything() == damaged


def test_one_set_of_values_is_the_newest_checkpoints(file: Told) -> None:
    file.fill(latest=True)
    (store,) = file.json("stores")
    assert store["layout"] == "three-table-latest"
    assert contents(file.json("show", THREAD)["values"]) == [*SAID, LAST]
    past = file.json("show", THIRD)
    assert (past["values"], len(past["writes"])) == ({}, 5)
    assert "not stored" in past["problem"]
    channels = file.json("diff", THIRD, "--writes")["channels"]
    assert {one["verdict"] for one in channels.values()} == {"unverifiable"}
    assert channels["messages"]["writes"][0]["node"] == "generate_response"
    trace = file.table("diff", "--writes", f"{THREAD}@ckpt_004")
    assert trace.count("  was    not stored\n") == 3
    assert "value not stored → 1.7 KiB" in trace
    before = file.everything()
    for words in (["rollback", THREAD, "ckpt_002"], ["copy", THREAD, "--as", "other"]):
        refused = file.ckpt(*words, "--yes")
        assert (refused.code, "newest checkpoint only" in refused.err) == (4, True), refused
    assert file.everything() == before
    kept = file.json("purge", "--match", THREAD, "--keep-last", "1", "--yes")
    assert kept["removed"]["rows"]["checkpoints"] == 3
    assert contents(file.json("show", THREAD)["values"]) == [*SAID, LAST]


def test_a_store_of_both_kinds_is_told_apart_thread_by_thread(empty: Told) -> None:
    empty.fill()
    with connected(empty.url) as execute:
        steps = MAKER.conversation()
        for table, row in MAKER.rows(steps, empty.engine, latest=True, thread_id="one_state"):
            MAKER.insert(execute, table, row, MARKS[empty.engine])
    (store,) = empty.json("stores")
    assert store["layout"] == "three-table"
    assert any("some of its threads" in note for note in store["notes"])
    assert empty.ckpt("rollback", THREAD, "ckpt_002", "--yes").code == 0
    before = empty.everything()
    refused = empty.ckpt("rollback", "one_state", "ckpt_002", "--yes")
    assert (refused.code, "newest checkpoint" in refused.err) == (4, True), refused
    assert empty.everything() == before


def test_changes_only_are_inherited_and_merged(file: Told) -> None:
    file.fill(changes=True)
    assert file.run("SELECT count(*) FROM checkpoint_blobs") == [(6,)]
    head = file.json("show", THREAD)
    assert (contents(head["values"]), head["values"]["search_results"]) == ([*SAID, LAST], PRODUCT)
    assert head["rebuilt"]["messages"] == "rebuilt (assumed append)"
    assert "search_results" not in head["rebuilt"]
    assert contents(file.json("show", f"{THREAD}@ckpt_002")["values"]) == SAID[:2]
    assert file.ckpt("replay", THREAD, "--verify").code == 0
    assert file.ckpt("rollback", THREAD, "ckpt_003", "--yes").code == 0
    again = file.json("show", THREAD)
    assert (again["checkpoint_id"], contents(again["values"])) == ("ckpt_005", SAID)
    assert "search_results" not in again["rebuilt"]
    kept = file.json("purge", "--match", THREAD, "--keep-last", "1", "--yes")
    assert kept["removed"]["rows"]["checkpoints"] == 2
    assert contents(file.json("show", THREAD)["values"]) == SAID
    # A thread of messages alone is still seen to store only new ones.
    for table in ("checkpoint_blobs", "checkpoint_writes"):
        file.run(f"DELETE FROM {table} WHERE channel <> 'messages'")
    assert contents(file.json("show", THREAD)["values"]) == SAID


def test_several_versions_of_a_channel_are_merged(file: Told) -> None:
    file.fill(final=False)
    hashed = file.hash_of("ckpt_003")
    parts = {
        "messages": [{"role": "human", "content": "more"}],
        "user_context": {"age": 29, "city": "Chengdu"},
        "search_results": [*PRODUCT, {"product_id": "M002"}],
    }
    for channel, value in parts.items():
        tag, data = MAKER._pack(value)
        file.run(
            "INSERT INTO checkpoint_blobs VALUES (?, ?, ?, 1, ?, ?)",
            *(THREAD, hashed, channel, tag, data),
        )
    shown = file.json("show", THREAD)
    assert contents(shown["values"]) == [*SAID, "more"]
    assert shown["values"]["user_context"] == {**CONTEXT, "age": 29, "city": "Chengdu"}
    assert shown["values"]["search_results"] == parts["search_results"]
    assert shown["rebuilt"] == {
        "messages": "rebuilt (assumed append)",
        "search_results": "rebuilt (assumed append)",
        "user_context": "rebuilt (assumed dict_merge)",
    }
    done = file.json("fork", THREAD, "head", "--yes")
    copied = file.run(
        "SELECT count(*) FROM checkpoint_blobs WHERE checkpoint_ns_hash = ?",
        file.hash_of(done["checkpoint_id"]),
    )
    assert copied == [(6,)]
    assert file.json("show", THREAD)["values"] == shown["values"]


def test_what_has_no_place_is_refused(file: Told) -> None:
    file.fill()
    before = file.everything()
    for words in (
        ["fork", THREAD, "head", "--set", 'user_context={"a": 1}', "--yes"],
        ["fork", THREAD, "head", "--as-node", "search_products", "--yes"],
        ["rollback", THREAD, "ckpt_002", "--sibling", "--yes"],
        ["show", THREAD, "--raw"],
    ):
        refused = file.ckpt(*words)
        assert (refused.code, "hint: " in refused.err) == (4, True), (words, refused)
    assert file.everything() == before
    done = file.json("fork", THREAD, "head", "--replace", 'user_context={"age": 30}', "--yes")
    shown = file.json("show", f"{THREAD}@{done['checkpoint_id']}")
    assert shown["values"]["user_context"] == {"age": 30}
    assert contents(shown["values"]) == [*SAID, LAST]


def test_a_thread_goes_and_comes_back_row_for_row(empty: Told, tmp_path: Path) -> None:
    empty.fill()
    before = empty.everything()
    receipt = empty.json("threads", "delete", THREAD, "--archive", tmp_path, "--yes")
    rows = {"checkpoints": 4, "checkpoint_writes": 8, "checkpoint_blobs": 8}
    assert receipt["removed"]["rows"] == rows
    assert not any(empty.everything().values())
    for added in (20, 0, 4):
        (done,) = empty.json("import", tmp_path, "--yes")
        assert (done["added"], done["there"]) == (added, 20 - added)
        assert empty.everything() == before
        if added == 0:
            empty.run("DELETE FROM checkpoints")
            for name in before:  # Without a key, the table itself refuses no row.
                empty.run(f"CREATE TABLE bare AS SELECT * FROM {name}")
                empty.run(f"DROP TABLE {name}")
                empty.run(f"ALTER TABLE bare RENAME TO {name}")


def test_writes_without_their_checkpoint_stay_while_one_is_young(file: Told) -> None:
    file.fill()
    file.run("DELETE FROM checkpoints WHERE checkpoint_id = 'ckpt_003'")
    words = ("gc", "--scope", "writes", "--dry-run")
    assert [one["writes"] for one in file.json(*words)["threads"]] == [5]
    of = "checkpoint_writes WHERE checkpoint_id = 'ckpt_003'"
    for row, made in file.run(f"SELECT rowid, gmt_create FROM {of}"):
        file.run("UPDATE checkpoint_writes SET gmt_create = '2990-01-01' WHERE rowid = ?", row)
        assert file.json(*words)["threads"] == []
        file.run("UPDATE checkpoint_writes SET gmt_create = ? WHERE rowid = ?", made, row)


def test_ids_that_count_are_ordered_by_time_and_number(file: Told) -> None:
    file.fill(final=False)
    for number in range(8, 12):
        file.run(
            "INSERT INTO checkpoints SELECT thread_id, ?, ?, checkpoint_ns, ?,"
            " '2026-04-08 09:00:00.000', gmt_modified FROM checkpoints"
            " WHERE checkpoint_id = 'ckpt_003'",
            *(f"run_{number}", "ckpt_003" if number == 8 else f"run_{number - 1}", f"h{number}"),
        )
    assert file.json("threads", "list")[0]["head"] == "run_11"
    listed = [one["checkpoint_id"] for one in file.json("history", THREAD)]
    assert listed[:4] == ["run_11", "run_10", "run_9", "run_8"]
    with open_store(file.url) as store:
        assert [one.key.checkpoint_id for one in store.checkpoints(THREAD)] == listed
    done = file.json("rollback", THREAD, "ckpt_002", "--yes")
    assert file.json("threads", "list")[0]["head"] == done["checkpoint_id"]


def test_encrypted_parts_are_read_with_the_key(file: Told) -> None:
    file.fill(changes=True)
    key, path = b"0123456789abcdef", Path(file.url).with_name("key")
    cipher = EncryptedSerializer.from_pycryptodome_aes(key=key).cipher
    for rowid, tag, data in file.run("SELECT rowid, type, blob_data FROM checkpoint_blobs"):
        name, sealed = cipher.encrypt(data)
        update = "UPDATE checkpoint_blobs SET type = ?, blob_data = ? WHERE rowid = ?"
        file.run(update, f"{tag}+{name}", sealed, rowid)
    path.write_bytes(key)
    path.chmod(0o600)
    assert contents(file.json("--aes-key-file", path, "show", THREAD)["values"]) == [*SAID, LAST]
    assert "content" not in str(file.json("show", THREAD)["values"]["messages"])
