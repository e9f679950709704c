"""`ckpt erase` on SQLite: what it finds, removes, keeps and says."""

import dataclasses
import json
import os
import random
import shutil
import signal
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.sqlite import SqliteStore

from ckpt_backends.archive import check_bundle, write_bundle
from ckpt_backends.errors import Refused, StoreUnavailable
from ckpt_backends.testing.chance import Chance
from ckpt_backends.testing.killing import calls_of, kill_at
from ckpt_backends.url import parse_url
from ckpt_cli.apply import erase
from ckpt_cli.apply.erase import ErasureRun
from ckpt_cli.operations.log import Journal, Operation, OperationLog, place_of
from tests.erase.person import (
    CANARY,
    OTHER,
    SUBJECT,
    THREADS,
    Home,
    fill,
    neighbours,
    talk,
    unpacked,
    use,
)
from tests.kit.agents.small import saver_of
from tests.kit.agents.steps import graph_of
from tests.kit.cases import cases
from tests.kit.command import ckpt
from tests.kit.memory.benches import SqliteBench
from tests.kit.rows import change


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that is copied for each test."""
    path = tmp_path_factory.mktemp("filled") / "agent.db"
    fill(SqliteBench(str(path)))
    change(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filled: Path) -> Home:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return Home(tmp_path, filled)


def places(found: Any) -> dict[str, tuple[int | None, str]]:
    return {one["kind"]: (one["items"], one["state"]) for one in found["places"]}


def test_no_file_holds_the_person_and_the_record_names_nobody(home: Home) -> None:
    use(home)
    words = ("erase", *SUBJECT, "--no-mentions", "--plan-out", home.backups / "erase.ndjson")
    assert home.run(*words).code == 0
    assert home.everything().count(CANARY.encode()) > 50
    found = home.erase(*SUBJECT, "--receipt", home.folder / "receipt.json").json
    assert found["complete"] is True
    assert found["subject"] == CANARY
    assert found["dry_run"] is False
    assert places(found) | {"engine": None, "other": None} == {
        "archives": (3, "erased"),
        "plans": (2, "erased"),
        "memory": (2, "erased"),
        "operations": (2, "erased"),
        "threads": (2, "erased"),
        "engine": None,
        "other": None,
    }
    left = home.everything() + (home.folder / "receipt.json").read_bytes()
    for name in (CANARY, *THREADS, "a secret"):
        assert name.encode() not in left, name
    assert neighbours(str(home.store)) == home.before
    assert len(list(home.backups.glob("*.ckpt.gz"))) == 1
    with home.bench.saver() as saver:
        assert talk(saver, OTHER, "bert")["items"][-1] == "from b"
    log = (home.state / "operations" / "log.ndjson").read_text().splitlines()
    before, *_, last = map(json.loads, log)
    assert (last["action"], last["threads"], last["number"]) == ("erase", [], 7)
    assert last["cannot_undo"] == "an erasure cannot be undone"
    assert last["command"].startswith("ckpt erase --subject")
    assert (before["threads"], before["reason"]) == (["[erased]"], "[erased]")
    assert before["cannot_undo"] == "what it changed was erased"
    for folder in ("operations/steps", "erasures"):
        assert list((home.state / folder).iterdir()) == []


def test_a_dry_run_changes_nothing_and_says_the_same(home: Home) -> None:
    use(home)
    before = (home.store.read_bytes(), unpacked(home.backups), unpacked(home.state))
    shown = home.erase(*SUBJECT, "--dry-run")
    assert "nothing was erased" in shown.err
    assert (home.store.read_bytes(), unpacked(home.backups), unpacked(home.state)) == before
    done = home.erase(*SUBJECT).json
    planned = {(one["kind"], one["items"], one["bytes"]) for one in shown.json["places"]}
    erased = {
        (one["kind"], one["items"], one["bytes"])
        for one in done["places"]
        if one["state"] == "erased"
    }
    assert planned == erased
    assert {one["state"] for one in shown.json["places"]} == {"kept"}
    assert shown.json["complete"] is False


def test_a_receipt_is_verified_later(home: Home) -> None:
    use(home)
    receipt = home.folder / "receipt.json"
    assert home.erase(*SUBJECT, "--receipt", receipt).code == 0
    assert receipt.stat().st_mode & 0o777 == 0o600
    record = json.loads(receipt.read_text())
    assert record["complete"] is True
    assert len(record["threads"]) == 2
    assert {"VACUUM", "secure_delete=ON"} <= set(record["statements"])
    assert "backups" in {one["store"].rpartition(": ")[2] for one in record["places"]}
    verified = home.run("erase", "--verify", receipt, "-o", "json")
    assert home.run("erase", "--verify", receipt, "--copy", "-o", "json").code == verified.code
    assert verified.code == 0
    assert {one["state"] for one in verified.json["places"]} == {"erased"}
    with home.bench.saver() as saver:
        talk(saver, THREADS[0], "someone")
    with home.bench.store(embeds=False) as store:
        store.put(("users", CANARY, "new"), "k", {"text": "x"})
    back = home.run("erase", "--verify", receipt, "-o", "json")
    assert back.code == 1
    assert places(back.json)["threads"] == (1, "kept")
    assert places(back.json)["memory"] == (1, "kept")


def test_other_texts_that_name_the_person_are_listed_and_stay(home: Home) -> None:
    with home.bench.saver() as saver:
        config = {"configurable": {"thread_id": "third"}}
        graph_of(saver).invoke({"items": [f"I met {CANARY.title()}"]}, config)
    with home.bench.store(embeds=False) as store:
        store.put(("team",), "lunch", {"text": f"as in {THREADS[1]}"})
    found = home.erase(*SUBJECT).json
    assert [(one["kind"], one["name"]) for one in found["mentions"]] == [
        ("thread", "third"),
        ("memory", "team/lunch"),
    ]
    assert found["complete"] is True
    assert "third" in home.threads
    assert home.erase(*SUBJECT, "--no-mentions").json["mentions"] is None


def test_a_thread_that_has_the_id_of_an_archived_one_stays(home: Home) -> None:
    assert home.run("threads", "delete", *THREADS, "--archive", home.backups, "--yes").code == 0
    with home.bench.saver() as saver:
        talk(saver, THREADS[0], "someone")
    assert places(home.erase(*SUBJECT).json)["archives"] == (2, "erased")
    assert CANARY.encode() not in home.everything()
    assert home.threads == {THREADS[0], OTHER}


def test_what_came_from_a_thread_goes_and_archives_of_other_stores_stay(home: Home) -> None:
    use(home)
    other = home.folder / "other.db"
    with SqliteBench(str(other)).saver() as saver:
        talk(saver, THREADS[0], "someone")
    ckpt("-s", other, "export", THREADS[0], "--to", home.backups, code=0)
    kept = len(list(home.backups.iterdir())) - 2  # an archive and the plan
    change(home.store, "UPDATE writes SET thread_id = 'rest' WHERE thread_id = ?", THREADS[1])
    found = home.erase(THREADS[0], "rest", "gone").json
    for kind, number in (("threads", 2), ("memory", 1), ("archives", 1)):
        assert places(found)[kind] == (number, "erased")
    assert [one["kind"] for one in found["mentions"]] == ["archive"]
    assert home.threads == {THREADS[1], OTHER}
    assert len(list(home.backups.iterdir())) == kept


@cases("went_on", THREADS[:1], THREADS)
def test_a_thread_that_went_on_is_left(
    home: Home, monkeypatch: pytest.MonkeyPatch, went_on: tuple[str, ...]
) -> None:
    remove = erase._remove_threads

    def agent_first(writable: Any, batch: Any) -> Any:
        with home.bench.saver() as saver:
            for thread in went_on:
                talk(saver, thread, CANARY)
        return remove(writable, batch)

    receipt = home.folder / "receipt.json"
    with monkeypatch.context() as patched:
        patched.setattr(erase, "_remove_threads", agent_first)
        partly = home.erase(*SUBJECT, "--receipt", receipt)
    assert partly.code == 7
    answer = json.loads(partly.out)
    assert answer["complete"] is False
    states = [(one["items"], one["state"]) for one in answer["places"] if one["kind"] == "threads"]
    assert states == [*[(1, "erased")] * (len(went_on) == 1), (len(went_on), "kept")]
    assert json.loads(receipt.read_text())["complete"] is False
    assert home.erase(*SUBJECT, "--receipt", receipt).json["complete"] is True
    assert len(json.loads(receipt.read_text())["threads"]) == 2


def test_a_reader_makes_it_incomplete(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpt_backends.sqlite.database._BUSY_SECONDS", 0.1)
    receipt = home.folder / "receipt.json"
    with closing(sqlite3.connect(home.store)) as reader:
        reader.execute("PRAGMA journal_mode = wal")
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM checkpoints").fetchone()
        partly = home.erase(*SUBJECT, "--receipt", receipt)
    assert partly.code == 7
    assert "engine" in places(json.loads(partly.out))
    assert "'agent.db' and 'agent.db-wal'" in partly.out
    verified = home.run("erase", "--verify", receipt, "-o", "json")
    assert verified.code == 7
    assert places(json.loads(verified.out))["engine"] == (None, "unreachable")
    again = home.erase(*SUBJECT)
    assert again.json["complete"] is True
    # The threads were gone, and what the file kept of them goes now.
    assert "VACUUM" in again.json["statements"]
    assert CANARY.encode() not in home.everything()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["x", "--where", "status = done"], 2, "cannot be combined"),
        (["--subject", "metadata.user =="], 2, "cannot read the filter"),
        (["--verify", "nothing.json"], 2, "cannot read the receipt"),
        (["x", "--receipt", "nowhere/r.json", "--yes"], 2, "cannot write the receipt"),
        (
            ["-s", "data/agent.db", *SUBJECT, "--yes"],
            2,
            f"cannot tell where threads name '{CANARY}'",
        ),
        ([*SUBJECT, "--audit", "nowhere/a.ndjson", "--yes"], 5, "cannot write the audit file"),
        *((["--verify", f"receipt-{n}"], 2, "not a receipt") for n in range(3)),
    ],
)
def test_what_is_refused(home: Home, words: list[str], code: int, said: str) -> None:
    damaged = ("[]", '{"ckpt_erasure_receipt": 2}', '{"ckpt_erasure_receipt": 1, "salt": 3}')
    for number, text in enumerate(damaged):
        home.folder.joinpath(f"receipt-{number}").write_text(text)
    before = (home.store.read_bytes(), unpacked(home.folder))
    refused = home.run("erase", *words)
    assert (refused.code, said in refused.err) == (code, True), refused.err
    assert (home.store.read_bytes(), unpacked(home.folder)) == before


def test_an_untrusted_profile_may_not_say_who_is_erased(home: Home) -> None:
    path = home.folder / "ckpt.toml"
    path.write_text(path.read_text() + "\n")
    refused = home.erase(*SUBJECT)
    assert refused.code == 2
    assert "sets 'erase'" in refused.err


def test_a_saved_plan_is_carried_out_or_nothing(home: Home) -> None:
    use(home)
    plan, receipt = home.folder / "plan.ndjson", home.folder / "receipt.json"
    before = home.store.read_bytes()
    saved = home.run("erase", *SUBJECT, "--receipt", receipt, "--plan-out", plan)
    assert saved.code == 0, saved.err
    assert home.store.read_bytes() == before
    assert not receipt.exists()
    for moves in ("talk", "put"):
        with home.bench.saver() as saver, home.bench.store(embeds=False) as store:
            if moves == "talk":
                talk(saver, THREADS[0], CANARY)
            else:
                store.put(("users", CANARY), "profile", {"text": f"{CANARY} likes rice"})
        assert home.run("apply", plan, "--receipt", receipt, "--yes").code == 6
        assert home.threads == {*THREADS, OTHER}
        assert home.run("erase", *SUBJECT, "--receipt", receipt, "--plan-out", plan).code == 0
    without = home.run("apply", plan, "--yes")
    assert (without.code, "--receipt" in without.err) == (2, True)
    done = home.run("apply", plan, "--receipt", receipt, "--yes", "-o", "json")
    assert done.json["complete"] is True
    assert receipt.exists()
    plan.unlink()
    assert CANARY.encode() not in home.everything()


def test_the_audit_file_stays_and_is_named(home: Home) -> None:
    audit = home.folder / "audit.ndjson"
    assert home.run("rollback", THREADS[0], "--steps", "1", "--yes", "--audit", audit).code == 0
    found = home.run("--audit", audit, "erase", *SUBJECT, "--yes", "-o", "json").json
    (place,) = [one for one in found["places"] if one["store"] == "audit file"]
    assert (place["items"], place["state"]) == (1, "kept")
    assert found["complete"] is True
    first, last = map(json.loads, audit.read_text().splitlines())
    assert first["threads"] == [THREADS[0]]
    assert (last["action"], last["threads"]) == ("erase", [])
    ckpt("ops", "verify", audit, code=0)


def test_nothing_goes_if_a_store_refuses(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    use(home)
    before = (home.store.read_bytes(), unpacked(home.backups))

    def refuse(url: Any) -> Any:
        raise StoreUnavailable("cannot write")

    monkeypatch.setattr("ckpt_cli.apply.recording.open_writable", refuse)
    refused = home.erase(*SUBJECT)
    assert (refused.code, "cannot write" in refused.err) == (4, True)
    assert (home.store.read_bytes(), unpacked(home.backups)) == before


def test_an_archive_of_memory_is_written_anew_without_the_person(home: Home) -> None:
    words = ("memory", "delete", "--match", "*", "--archive", home.backups, "--yes")
    assert home.run(*words).code == 0
    assert places(home.erase(*SUBJECT).json)["archives"] == (1, "erased")
    assert CANARY.encode() not in home.everything()
    assert b"a secret" not in home.everything()
    (bundle,) = home.backups.iterdir()
    assert home.run("memory", "import", bundle, "--yes").code == 0
    items = home.run("memory", "list", "-o", "json").json
    assert [(one["namespace"], one["key"]) for one in items] == [(["users", "bert"], "profile")]
    assert neighbours(str(home.store)) == home.before


def test_a_signal_stops_it_between_two_places(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    use(home)
    erase_memory = ErasureRun._memory

    def interrupted(run: ErasureRun) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        erase_memory(run)

    with monkeypatch.context() as patched:
        patched.setattr(ErasureRun, "_memory", interrupted)
        stopped = home.erase(*SUBJECT, "--receipt", "receipt.json")
    assert (stopped.code, "SIGTERM" in stopped.err) == (7, True)
    record = json.loads((home.folder / "receipt.json").read_text())
    assert record["complete"] is False
    assert (places(record)["memory"], places(record)["threads"]) == ((2, "erased"), (2, "kept"))
    assert home.threads == {*THREADS, OTHER}
    assert CANARY.encode() not in unpacked(home.state / "erasures")
    # What it had found is no matter of another request.
    assert "nothing to erase" in home.erase("--subject", "nobody", "--receipt", "another.json").err
    assert json.loads((home.folder / "another.json").read_text())["items"] == []
    found = home.erase(*SUBJECT, "--receipt", "receipt.json").json
    assert (found["complete"], places(found)["threads"]) == (True, (2, "erased"))
    assert CANARY.encode() not in home.everything()
    assert len(json.loads((home.folder / "receipt.json").read_text())["items"]) == 2


def test_queries_that_name_the_erased_are_taken_out_of_the_history(sample: Path) -> None:
    history = Path(os.environ["XDG_STATE_HOME"]) / "ckpt" / "sql" / "history"
    history.parent.mkdir(parents=True)
    kept = (
        "\n# 2026-04-07 10:00:00\n+SELECT count(*)\n+FROM threads\n",
        "\n# 2026-04-07 10:03:00\n+FROM threads WHERE thread_id = 'refund-47110'\n",
    )
    gone = (
        "\n# 2026-04-07 10:01:00\n+FROM messages WHERE thread_id = 'refund-4711'\n+LIMIT 3\n",
        "\n# 2026-04-07 10:02:00\n+FROM threads WHERE thread_id LIKE 'refund-4711%'\n",
    )
    history.write_text("".join((gone[0], kept[0], gone[1], kept[1])))
    history.with_name(".history.old").write_text(gone[0])
    dry = ckpt("-s", sample, "erase", "refund-4711", "--dry-run", "-o", "json").json
    assert [one["items"] for one in dry["places"] if one["kind"] == "queries"] == [2]
    done = ckpt("-s", sample, "erase", "refund-4711", "--yes", "-o", "json").json
    assert {one["state"] for one in done["places"] if one["kind"] == "queries"} == {"erased"}
    assert history.read_text() == "".join(kept)
    assert [one.name for one in history.parent.iterdir()] == ["history"]
    assert history.stat().st_mode & 0o777 == 0o600


ERASE = ("-s", "a", "erase", *SUBJECT, "--yes", "-o", "json", "--no-mentions")


@pytest.mark.parametrize("times", [4, pytest.param(0, marks=pytest.mark.nightly, id="night")])
def test_an_erasure_that_is_killed_at_any_moment_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int, chance: Chance
) -> None:
    """A few times at moments from the first to the last, or in the night at any."""
    place, full = tmp_path / "place", tmp_path / "full"
    place.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    monkeypatch.chdir(place)
    home = Home(place)
    use(home)
    # An archive that holds the person's items and another's.
    assert home.run("memory", "delete", "--match", "*", "--archive", "backups", "--yes").code == 0
    assert home.run("undo", "--yes").code == 0
    shutil.copytree(place, full)
    calls = calls_of(ERASE)
    part, dice = len(calls) // (times or 1), random.Random(times)
    fixed = (dice.choice(calls[n * part :][:part]) for n in range(times))
    killed = 0
    for moment in fixed if times else (one.choice(calls) for one in chance.rounds(30)):
        for one in place.iterdir():
            shutil.rmtree(one) if one.is_dir() else one.unlink()
        shutil.copytree(full, place, dirs_exist_ok=True)
        killed += kill_at(ERASE, moment)
        ckpt(*ERASE, "--receipt", "receipt.json", code=0)
        left = home.everything()
        for name in (CANARY, *THREADS, "a secret"):
            assert name.encode() not in left, (moment, name)
        assert json.loads((place / "receipt.json").read_text())["complete"] is True
        assert ckpt("-s", "a", "erase", "--verify", "receipt.json").code == 0, moment
    assert killed > times * 0.9


# All of a person: resumed runs, subgraphs, archives, memory, and receipts

KYOTO = "trip-to-kyoto"
ANNA = ("--subject", 'metadata.user_id = "anna-1"')


class Desk:
    """A store with threads of two users, and a folder for archives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "agent.db"
        self.archives = folder / "archives"
        self.receipt = folder / "receipt.json"

    def talk(self, thread_id: str, user: str | None, *, path: Path | None = None) -> None:
        """Run the graph for a user, or without metadata, as a resume by an old list did."""
        metadata = {} if user is None else {"user_id": user}
        config: Any = {"configurable": {"thread_id": thread_id}, "metadata": metadata}
        with saver_of(path or self.path) as saver:
            graph_of(saver).invoke({"items": ["a note"]}, config)

    def remember(
        self, namespace: tuple[str, ...], text: str, path: Path | None = None, **more: str
    ) -> None:
        with SqliteStore.from_conn_string(str(path or self.path)) as store:
            store.setup()
            store.put(namespace, "profile", {"text": text, **more})

    def run(self, *words: Any) -> Any:
        return ckpt("-s", self.path, *words)

    def erase(self, *words: Any, code: int = 0) -> Any:
        """Erase the person; returns the answer, which has to agree with the receipt."""
        words = (*ANNA, *words, "--receipt", self.receipt, "--yes", "-o", "json")
        done = self.run("erase", *words)
        assert done.code == code, done.err
        answer = json.loads(done.out)
        assert answer["complete"] is (code == 0)
        assert json.loads(self.receipt.read_text())["complete"] is (code == 0)
        return answer

    def verified(self, *words: Any) -> tuple[int, dict[str, str]]:
        """Verify the receipt; returns the exit code, and the state of each kind of place."""
        done = self.run("erase", "--verify", self.receipt, *words, "-o", "json")
        worst = sorted(json.loads(done.out)["places"], key=lambda one: one["state"] == "kept")
        return done.code, {one["kind"]: one["state"] for one in worst}

    @property
    def threads(self) -> set[str]:
        return {one["thread_id"] for one in self.run("threads", "list", "-o", "json").json}


@pytest.fixture(scope="module")
def desks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that is copied for each test."""
    desk = Desk(tmp_path_factory.mktemp("filled"))
    for thread_id, user in (("plain", "anna-1"), ("resumed", "anna-1"), ("resumed", None)):
        desk.talk(thread_id, user)
    desk.talk("other", "bert-2")
    change(desk.path, "PRAGMA wal_checkpoint(TRUNCATE)")
    return desk.path


@pytest.fixture
def desk(desks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    desk = Desk(tmp_path)
    shutil.copyfile(desks, desk.path)
    return desk


def test_a_thread_is_the_persons_if_any_checkpoint_is(desk: Desk) -> None:
    listed = desk.run("threads", "list", "--where", ANNA[1], "-o", "json").json
    assert [one["thread_id"] for one in listed] == ["resumed", "plain"]
    dry = desk.run("erase", *ANNA, "--dry-run", "-o", "json").json
    assert [one["items"] for one in dry["places"]] == [2]
    desk.erase()
    assert desk.threads == {"other"}
    assert desk.verified()[0] == 0


def test_a_subgraph_may_be_all_that_names_the_person(desk: Desk) -> None:
    for namespace, thread in (("child:1", "plain"), ("", "other")):
        copied = "checkpoint_id, NULL, type, checkpoint, metadata FROM checkpoints"
        row = f"SELECT 'inner', ?, {copied} WHERE thread_id = ? LIMIT 1"
        change(desk.path, f"INSERT INTO checkpoints {row}", namespace, thread)
    desk.erase()
    assert desk.threads == {"other"}


def test_values_of_any_checkpoint_name_the_person(desk: Desk) -> None:
    def count(way: str, condition: str) -> int:
        places = desk.run("erase", way, condition, "--dry-run", "-o", "json").json["places"]
        return sum(one["items"] for one in places if one["kind"] == "threads")

    for thread_id, note in (("changed", "of dora"), ("plain", "of emil")):
        config: Any = {"configurable": {"thread_id": thread_id}}
        with saver_of(desk.path) as saver:
            graph_of(saver).update_state(config, {"items": [note]}, as_node="a")
    once = "not values.items[] ~ 'of emil' and values.items[] = 'a note'"
    assert (count("--where", once), count("--subject", once)) == (2, 3)
    # The size is that of the whole thread.
    assert count("--subject", f"{once} and bytes > 1") == 3


def test_metadata_that_cannot_be_read_is_no_complete_erasure(desk: Desk) -> None:
    spoil = "UPDATE checkpoints SET metadata = x'ff7b' WHERE thread_id = 'other'"
    change(desk.path, f"{spoil} AND parent_checkpoint_id IS NOT NULL")
    (left,) = (one for one in desk.erase(code=7)["places"] if "cannot be read" in one["reason"])
    assert (left["kind"], left["items"], left["state"]) == ("threads", 1, "kept")
    assert desk.threads == {"other"}
    assert desk.verified() == (7, {**desk.verified()[1], "threads": "unreachable"})
    # Where the thread is known to be another one, its metadata does not matter.
    named = "thread = 'plain' and metadata.user_id = 'anna-1'"
    assert desk.run("erase", "--subject", named, "--yes").code == 0


def test_an_agent_at_work_makes_it_incomplete(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    remove = erase._remove_threads

    def agent_too(writable: Any, batch: Any) -> Any:
        found = remove(writable, batch)
        writable.close()
        desk.talk("new", "anna-1")
        desk.talk("plain", None)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(erase, "_remove_threads", agent_too)
        patched.setattr(erase.ErasureRun, "_remains", lambda *_: None)
        answer = desk.erase(code=7)
    (left,) = (one for one in answer["places"] if "written again" in one["reason"])
    assert (left["kind"], left["items"]) == ("threads", 2)
    assert desk.verified()[0] == 1
    assert desk.run("threads", "delete", "plain", "--yes").code == 0
    desk.erase()
    assert desk.verified()[0] == 0


def test_archives_of_any_store_below_a_named_folder_are_erased(desk: Desk) -> None:
    moved = desk.folder / "old" / "server.db"
    moved.parent.mkdir()
    desk.talk("elsewhere", "anna-1", path=moved)
    desk.talk("theirs", "bert-2", path=moved)
    below = desk.archives / "2026" / "january"
    ckpt("-s", moved, "export", "--all", "--to", below, code=0)
    deleted = desk.folder / "deleted"
    assert desk.run("threads", "delete", "resumed", "--archive", deleted, "--yes").code == 0
    desk.talk("resumed-2", "bert-2")
    assert desk.run("purge", "--match", "pl*", "--plan-out", below / "plan.ndjson").code == 0
    (below / "killed.ckpt.gz").write_bytes(bytes(99))
    (deleted / ".resumed.ckpt.gz.old").write_bytes(b"from before")
    # Those of another store are erased for a person only.
    where = ("erase", "--where", ANNA[1], "--archives", below, "--dry-run", "-o", "json")
    counts = [(one["kind"], one["items"]) for one in desk.run(*where).json["places"]]
    assert ("archives", 1) in counts
    assert ("archives", 2) not in counts
    answer = desk.erase("--archives", desk.archives)
    places = [one for one in answer["places"] if one["kind"] == "archives"]
    assert {(one["items"], one["state"]) for one in places} == {(2, "erased")}
    assert list(deleted.iterdir()) == []
    assert not (below / "plan.ndjson").exists()
    (left,) = desk.archives.rglob("*.ckpt.gz")
    assert left.name.startswith("theirs")
    assert desk.threads == {"other", "resumed-2"}
    assert desk.verified()[0] == 0
    assert '"resumed"' not in desk.run("ops", "list", "--all", "-o", "json").out
    desk.talk("plain", "bert-2", path=moved)
    ckpt("-s", moved, "export", "plain", "--to", below, code=0)
    assert desk.verified()[0] == 0
    ckpt("-s", moved, "export", "elsewhere", "--to", below, code=0)
    code, states = desk.verified()
    assert (code, states["archives"]) == (1, "kept")


def test_what_a_purge_left_of_a_thread_goes_with_its_archive(desk: Desk) -> None:
    for _ in range(2):
        words = ("purge", "--match", "resumed", "--keep-last", "1", "--yes")
        assert desk.run(*words, "--archive", desk.archives).code == 0
        desk.talk("resumed", None)
    assert len(list(desk.archives.iterdir())) == 2
    answer = desk.erase("--archives", desk.archives)
    assert {one["items"] for one in answer["places"] if one["kind"] == "threads"} == {2}
    assert (list(desk.archives.iterdir()), desk.threads) == ([], {"other"})


def test_a_folder_that_was_not_looked_through_makes_it_incomplete(desk: Desk) -> None:
    elsewhere = desk.folder / "elsewhere"
    assert desk.run("export", "plain", "--to", elsewhere).code == 0
    desk.archives.mkdir()
    (desk.archives / "more").symlink_to(elsewhere)
    missing = desk.run("erase", *ANNA, "--archives", desk.folder / "archive", "--yes")
    assert (missing.code, "there is no folder" in missing.err) == (2, True)
    answer = desk.erase("--archives", desk.archives, code=7)
    (left,) = (one for one in answer["places"] if "a link" in one["reason"])
    assert left["store"] == str(desk.archives / "more")
    assert len(list(elsewhere.iterdir())) == 1
    assert desk.verified()[0] == 7
    (desk.archives / "more").unlink()
    desk.erase("--archives", desk.archives, "--archives", elsewhere)
    assert list(elsewhere.iterdir()) == []


def test_an_archive_that_does_not_tell_makes_it_incomplete(desk: Desk) -> None:
    # A checkpoint of a subgraph is no head, though its id is the greatest.
    row = "'inner', 'ff', NULL, type, checkpoint, metadata FROM checkpoints"
    change(desk.path, f"INSERT INTO checkpoints SELECT thread_id, {row} WHERE rowid = 1")
    assert desk.run("export", "--all", "--to", desk.archives).code == 0
    (path,) = desk.archives.glob("plain-*")
    bundle = check_bundle(path)
    rows = list(bundle.rows())
    write_bundle(path, dataclasses.replace(bundle.header, layout="unheard-of"), rows)
    words = ("erase", "--subject", "status = error and step < 0 and metadata.user_id = 'bert-2'")
    done = desk.run(*words, "--archives", desk.archives, "--yes", "-o", "json")
    assert done.code == 7
    left = [one for one in json.loads(done.out)["places"] if one["kind"] == "archives"]
    assert ["name its thread" in one["reason"] for one in left] == [True] * 2
    other = desk.run("erase", "--where", "status = error", "--archives", desk.archives, "--yes")
    assert other.code == 0
    # A filter asks about the newest checkpoint of an archive, not about the first.
    first = ("--where", "step < 0", "--archives", desk.archives, "--dry-run", "-o", "json")
    assert desk.run("erase", *first).json["places"] == []
    assert desk.run("threads", "delete", "other", "--yes").code == 0
    for pattern, found in (("o*r", {"archives": 1}), ("pl*", {"threads": 1, "archives": 1})):
        named = ("--match", pattern, "--archives", desk.archives, "--dry-run", "-o", "json")
        places = desk.run("erase", *named).json["places"]
        assert found.items() <= {one["kind"]: one["items"] for one in places}.items()


def test_memory_that_nobody_looked_at_makes_it_incomplete(desk: Desk) -> None:
    desk.remember(("users", "anna-1"), "likes tea")
    desk.remember(("users", "bert-2"), "likes coffee")
    desk.remember(("notes",), "likes trees", thread_id="plain")
    # Threads that are named need no memory.
    assert desk.run("erase", "--match", "res*", "--yes").code == 0
    for words, said in (
        ((*ANNA, "--memory-namespace", "users"), "memory of everyone"),
        (("plain", "--memory-namespace", "users/{user}"), "belongs to --subject"),
    ):
        refused = desk.run("erase", *words, "--yes")
        assert (refused.code, said in refused.err) == (2, True)
    assert desk.threads == {"plain", "other"}
    answer = desk.erase(code=7)
    left, gone = (one for one in answer["places"] if one["kind"] == "memory")
    assert (gone["items"], gone["state"]) == (1, "erased")
    assert (left["items"], left["state"]) == (2, "kept")
    assert "--memory-namespace" in left["reason"]
    assert desk.verified() == (7, {**desk.verified()[1], "memory": "unreachable"})
    archive = ("--archive", desk.archives)
    assert desk.run("memory", "delete", "--match", "*", *archive, "--yes").code == 0
    assert desk.run("undo", "--yes").code == 0
    answer = desk.erase("--archives", desk.archives, code=7)
    (left,) = (one for one in answer["places"] if one["kind"] == "archives")
    assert (left["state"], "--memory-namespace" in left["reason"]) == ("kept", True)
    elsewhere = desk.folder / "memory.db"
    desk.remember(("users", "anna-1"), "likes milk", elsewhere)
    named = ("--archives", desk.archives, "--memory", elsewhere, "--memory-namespace")
    answer = desk.erase(*named, "people/{user}", "--memory-namespace", "users/{user}")
    assert [one["items"] for one in answer["places"] if one["kind"] == "memory"] == [1, 1]
    items = desk.run("memory", "list", "-o", "json").json
    assert [one["namespace"] for one in items] == [["users", "bert-2"]]
    assert desk.verified()[0] == 7
    assert desk.verified("--memory", elsewhere)[0] == 0
    desk.remember(("users", "anna-1"), "likes tea")
    found = desk.verified("--memory", elsewhere)
    assert found == (1, {**found[1], "memory": "kept"})


def test_a_verification_looks_at_all_that_ckpt_recorded(desk: Desk) -> None:
    desk.archives.mkdir()
    desk.erase("--archives", desk.archives)
    code, states = desk.verified()
    assert code == 0
    assert {"archives", "plans", "operations", "queries"} <= states.keys()
    history = Path(os.environ["XDG_STATE_HOME"]) / "ckpt" / "sql" / "history"
    history.parent.mkdir(parents=True)
    for query in ("thread_id = 'plain'", "user_id = 'Anna-1'", "user_id LIKE '%/anna-1/%'"):
        history.write_text(f"\n# 2026-04-07 10:00:00\n+FROM threads WHERE {query}\n")
        assert desk.verified() == (1, {**states, "queries": "kept"})
    history.rename(history.with_name(".history.old"))
    assert desk.verified() == (1, {**states, "queries": "kept"})
    history.with_name(".history.old").unlink()
    history.write_text("\n# 2026-04-07 10:00:00\n+FROM plains WHERE user_id = 'anna-12'\n")
    assert desk.verified()[0] == 0
    desk.talk("plain", "bert-2")
    plan = desk.archives / "below" / "plan.ndjson"
    plan.parent.mkdir()
    assert desk.run("purge", "--match", "plain", "--keep-last", "1", "--plan-out", plan).code == 0
    assert desk.verified() == (1, {**states, "threads": "kept", "plans": "kept"})
    assert desk.run("rollback", "plain", "--steps", "1", "--yes").code == 0
    kept = dict.fromkeys(("threads", "plans", "operations"), "kept")
    assert desk.verified() == (1, {**states, **kept})
    assert desk.run("erase", "plain", "--archives", desk.archives, "--yes").code == 0
    assert not plan.exists()


def test_a_saved_plan_keeps_whose_memory_it_is_and_which_folder_was_named(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.remember(("users", "anna-1"), "likes tea")
    assert desk.run("threads", "delete", "resumed", "--archive", desk.archives, "--yes").code == 0
    plan = desk.folder / "plan.ndjson"
    named = ("--memory-namespace", "users/{user}", "--archives", "archives")
    saved = desk.run("erase", *ANNA, *named, "--plan-out", plan)
    assert saved.code == 0, saved.err
    monkeypatch.chdir("/")
    done = desk.run("apply", plan, "--yes")
    assert done.code == 0, done.err
    assert (list(desk.archives.rglob("*.ckpt.gz")), desk.threads) == ([], {"other"})
    assert desk.run("memory", "list", "-o", "json").json == []


@cases("opens kind", ("open_memory", "memory"), ("open_sessions", "sessions"))
def test_what_cannot_be_read_makes_it_incomplete(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, opens: str, kind: str
) -> None:
    def refuse(_: Any) -> Any:
        raise StoreUnavailable("it is down")

    desk.erase()
    desk.talk("new", "anna-1")
    monkeypatch.setattr(f"ckpt_cli.plans.erase.{opens}", refuse)
    assert desk.verified() == (7, {**desk.verified()[1], kind: "unreachable"})
    named = desk.run("erase", *ANNA, "--memory", desk.folder / "other.db", "--yes")
    assert (named.code, "new" in desk.threads) == (4, True)
    answer = desk.erase(code=7)
    (left,) = (one for one in answer["places"] if one["reason"] == "it is down")
    assert (left["kind"], left["state"]) == (kind, "kept")


def test_an_archive_with_another_name_is_left_with_what_tells_of_it(desk: Desk) -> None:
    assert desk.run("threads", "delete", "plain", "--archive", desk.archives, "--yes").code == 0
    (bundle,) = desk.archives.iterdir()
    os.link(bundle, desk.folder / "another name")
    places = {one["kind"]: one for one in desk.erase(code=7)["places"]}
    for kind, said in (("archives", "1 of 1 files: "), ("operations", "archives that are left")):
        assert (places[kind]["state"], said in places[kind]["reason"]) == ("kept", True)


def test_the_steps_of_an_operation_that_still_runs_are_left(home: Home) -> None:
    log, place = OperationLog.of_user(), place_of(parse_url(str(home.store)))
    running = Operation("1" * 12, datetime.now(UTC), "ann", "fork", "a", place, threads=THREADS)
    journal = Journal(log, running)
    answer = json.loads(home.erase(*SUBJECT).out)
    assert (answer["complete"], places(answer)["operations"]) == (False, (1, "kept"))
    assert list((log.folder / "running").iterdir())
    journal.close(keep=False)


@cases(
    "fails kind number",
    *(("_remove_items", "memory", 2), ("open_writable_memory", "memory", 2)),
    ("ErasureRun._remains", "engine", None),
)
def test_what_cannot_be_removed_is_left(
    home: Home, monkeypatch: pytest.MonkeyPatch, fails: str, kind: str, number: int | None
) -> None:
    def refuse(*_: Any) -> Any:
        raise StoreUnavailable("it is down")

    monkeypatch.setattr(f"ckpt_cli.apply.erase.{fails}", refuse)
    answer = json.loads(home.erase(*SUBJECT).out)
    left = {one["kind"]: (one["items"], one["state"], one["reason"]) for one in answer["places"]}
    assert (answer["complete"], left[kind]) == (False, (number, "kept", "it is down"))
    assert left["threads"][:2] == (2, "erased")


def test_threads_that_are_refused_are_told_if_others_go_later(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove, locked = erase._remove_threads, iter([Refused("it is locked")])

    def refuse_first(writable: Any, batch: Any) -> Any:
        for error in locked:
            raise error
        return remove(writable, batch)

    monkeypatch.setattr(erase, "_thread_batches", lambda found, _: [[one] for one in found.rows])
    monkeypatch.setattr(erase, "_remove_threads", refuse_first)
    found = json.loads(home.erase(*SUBJECT).out)["places"]
    threads = [(one["items"], one["reason"]) for one in found if one["kind"] == "threads"]
    assert threads == [(1, ""), (1, "it is locked")]


def test_a_folder_without_its_name_is_not_called_checked(tmp_path: Path) -> None:
    store, receipt = tmp_path / "a.db", tmp_path / "receipt.json"
    folder = tmp_path / f"{KYOTO}_old"
    ckpt("demo", store, code=0)
    ckpt("-s", store, "export", KYOTO, "--to", folder, code=0)
    shutil.copytree(folder, tmp_path / "kept")
    words = (KYOTO, "--archives", folder, "--receipt", receipt, "--yes")
    # The archive that cannot be read may be of anybody.
    damaged = folder / "it%27s%20bert-968ccf654c35-20260101T000000Z.ckpt.gz"
    damaged.write_bytes(b"cut off")
    ckpt("-s", store, "erase", *words, code=7)
    told = json.loads(receipt.read_text())
    assert told["folders"] == [f"{tmp_path}/[erased]_old"]
    left = (one for one in told["places"] if one["state"] == "kept")
    (place,) = ((one["store"], one["reason"].partition(":")[0]) for one in left)
    erased = f"{tmp_path}/[erased]_old/[erased].ckpt.gz"
    assert place == (erased, f"cannot read '{erased}'")
    assert "bert" not in receipt.read_text()
    damaged.unlink()
    ckpt("-s", store, "erase", *words, code=0)
    assert "kyoto" not in receipt.read_text().replace(str(tmp_path), "")
    verify = ("-s", store, "erase", "--verify", receipt)
    (tmp_path / "empty").mkdir()
    for more in ((), ("--archives", tmp_path / "empty")):
        ckpt(*verify, *more, code=7, says="--archives")
    ckpt(*verify, "--archives", folder, code=0)
    shutil.copytree(tmp_path / "kept", folder, dirs_exist_ok=True)
    ckpt(*verify, "--archives", folder, code=1)
