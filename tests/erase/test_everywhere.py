"""All of a person: checkpoints of resumed runs and of subgraphs, archives, memory, and receipts."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.sqlite import SqliteStore

from ckpt_cli.apply import erase
from tests.kit.agents.small import saver_of
from tests.kit.agents.steps import graph_of
from tests.kit.command import ckpt
from tests.kit.rows import change

KYOTO = "trip-to-kyoto"
SUBJECT = ("--subject", 'metadata.user_id = "anna-1"')


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

    def remember(self, namespace: tuple[str, ...], text: str) -> None:
        with SqliteStore.from_conn_string(str(self.path)) as store:
            store.setup()
            store.put(namespace, "profile", {"text": text})

    def run(self, *words: Any) -> Any:
        return ckpt("-s", self.path, *words)

    def erase(self, *words: Any, code: int = 0) -> Any:
        """Erase the person; returns the answer, which has to agree with the receipt."""
        words = (*SUBJECT, *words, "--receipt", self.receipt, "--yes", "-o", "json")
        done = self.run("erase", *words)
        assert done.code == code, done.err
        answer = json.loads(done.out)
        assert answer["complete"] is (code == 0)
        assert json.loads(self.receipt.read_text())["complete"] is (code == 0)
        return answer

    def verified(self, *words: Any) -> tuple[int, dict[str, str]]:
        """Verify the receipt; returns the exit code, and the state of each kind of place."""
        done = self.run("erase", "--verify", self.receipt, *words, "-o", "json")
        places = json.loads(done.out)["places"]
        worst = sorted(places, key=lambda one: one["state"] == "kept")
        return done.code, {one["kind"]: one["state"] for one in worst}

    @property
    def threads(self) -> set[str]:
        return {one["thread_id"] for one in self.run("threads", "list", "-o", "json").json}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that is copied for each test."""
    desk = Desk(tmp_path_factory.mktemp("filled"))
    for thread_id, user in (("plain", "anna-1"), ("resumed", "anna-1"), ("resumed", None)):
        desk.talk(thread_id, user)
    desk.talk("other", "bert-2")
    change(desk.path, "PRAGMA wal_checkpoint(TRUNCATE)")
    return desk.path


@pytest.fixture
def desk(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    desk = Desk(tmp_path)
    shutil.copyfile(filled, desk.path)
    return desk


def test_a_thread_is_the_persons_if_any_checkpoint_is(desk: Desk) -> None:
    listed = desk.run("threads", "list", "--where", SUBJECT[1], "-o", "json").json
    assert [one["thread_id"] for one in listed] == ["resumed", "plain"]
    dry = desk.run("erase", *SUBJECT, "--dry-run", "-o", "json").json
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


def test_metadata_that_cannot_be_read_is_no_complete_erasure(desk: Desk) -> None:
    change(desk.path, "UPDATE checkpoints SET metadata = x'ff7b' WHERE thread_id = 'other'")
    answer = desk.erase(code=7)
    (left,) = (one for one in answer["places"] if "cannot be read" in one["reason"])
    assert (left["kind"], left["items"], left["state"]) == ("threads", 1, "kept")
    assert desk.threads == {"other"}
    assert desk.verified() == (7, {**desk.verified()[1], "threads": "unreachable"})
    # Where the thread is known to be another one, its metadata does not matter.
    named = "thread = 'plain' and metadata.user_id = 'anna-1'"
    assert desk.run("erase", "--subject", named, "--yes").code == 0


def test_an_agent_that_writes_meanwhile_makes_it_incomplete(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = erase._remove_threads

    def agent_too(writable: Any, batch: Any) -> Any:
        found = remove(writable, batch)
        writable.close()
        desk.talk("new", "anna-1")
        return found

    with monkeypatch.context() as patched:
        patched.setattr(erase, "_remove_threads", agent_too)
        patched.setattr(erase.ErasureRun, "_remains", lambda *_: None)
        answer = desk.erase(code=7)
    (left,) = (one for one in answer["places"] if "written again" in one["reason"])
    assert (left["kind"], left["items"]) == ("threads", 1)
    assert desk.verified()[0] == 1
    desk.erase()
    assert desk.verified()[0] == 0


def test_archives_of_any_store_below_a_named_folder_are_erased(desk: Desk) -> None:
    moved = desk.folder / "old" / "server.db"
    moved.parent.mkdir()
    desk.talk("elsewhere", "anna-1", path=moved)
    desk.talk("theirs", "bert-2", path=moved)
    below = desk.archives / "2026" / "january"
    assert ckpt("-s", moved, "export", "--all", "--to", below).code == 0
    words = ("threads", "delete", "resumed", "--archive", desk.archives, "--yes")
    assert desk.run(*words).code == 0
    desk.talk("resumed-2", "bert-2")
    answer = desk.erase("--archives", desk.archives)
    places = [one for one in answer["places"] if one["kind"] == "archives"]
    assert {(one["items"], one["state"]) for one in places} == {(1, "erased")}
    (left,) = desk.archives.rglob("*.ckpt.gz")
    assert left.name.startswith("theirs")
    assert desk.threads == {"other", "resumed-2"}
    assert desk.verified()[0] == 0
    assert ckpt("-s", moved, "export", "elsewhere", "--to", below).code == 0
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
    assert list(desk.archives.iterdir()) == []
    assert desk.threads == {"other"}


def test_a_folder_that_was_not_looked_through_makes_it_incomplete(desk: Desk) -> None:
    elsewhere = desk.folder / "elsewhere"
    assert desk.run("export", "plain", "--to", elsewhere).code == 0
    desk.archives.mkdir()
    (desk.archives / "more").symlink_to(elsewhere)
    missing = desk.run("erase", *SUBJECT, "--archives", desk.folder / "archive", "--yes")
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
    assert desk.run("export", "--all", "--to", desk.archives).code == 0
    words = ("erase", "--subject", "status = error and metadata.user_id = 'bert-2'")
    done = desk.run(*words, "--archives", desk.archives, "--yes", "-o", "json")
    assert done.code == 7
    left = [one for one in json.loads(done.out)["places"] if one["kind"] == "archives"]
    assert ["name its thread" in one["reason"] for one in left] == [True]
    other = desk.run("erase", "--where", "status = error", "--archives", desk.archives, "--yes")
    assert other.code == 0


def test_memory_that_nobody_looked_at_makes_it_incomplete(desk: Desk) -> None:
    desk.remember(("users", "anna-1"), "likes tea")
    desk.remember(("users", "bert-2"), "likes coffee")
    # Threads that are named need no memory.
    assert desk.run("erase", "--match", "res*", "--yes").code == 0
    for words, said in (
        ((*SUBJECT, "--memory-namespace", "users"), "memory of everyone"),
        (("plain", "--memory-namespace", "users/{user}"), "belongs to --subject"),
    ):
        refused = desk.run("erase", *words, "--yes")
        assert (refused.code, said in refused.err) == (2, True)
    assert desk.threads == {"plain", "other"}
    answer = desk.erase(code=7)
    (left,) = (one for one in answer["places"] if one["kind"] == "memory")
    assert (left["items"], left["state"]) == (2, "kept")
    assert "--memory-namespace" in left["reason"]
    assert desk.verified() == (7, {**desk.verified()[1], "memory": "unreachable"})
    archive = ("--archive", desk.archives)
    assert desk.run("memory", "delete", "--match", "*", *archive, "--yes").code == 0
    assert desk.run("undo", "--yes").code == 0
    answer = desk.erase("--archives", desk.archives, code=7)
    (left,) = (one for one in answer["places"] if one["kind"] == "archives")
    assert (left["state"], "--memory-namespace" in left["reason"]) == ("kept", True)
    named = ("--archives", desk.archives, "--memory-namespace", "users/{user}")
    answer = desk.erase(*named)
    assert [one["items"] for one in answer["places"] if one["kind"] == "memory"] == [1]
    items = desk.run("memory", "list", "-o", "json").json
    assert [one["namespace"] for one in items] == [["users", "bert-2"]]
    assert desk.verified()[0] == 0
    desk.remember(("users", "anna-1"), "likes tea")
    assert desk.verified() == (1, {**desk.verified()[1], "memory": "kept"})


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
    history.write_text("\n# 2026-04-07 10:00:00\n+FROM plains WHERE user_id = 'anna-12'\n")
    assert desk.verified()[0] == 0
    desk.talk("plain", "bert-2")
    plan = desk.archives / "plan.ndjson"
    words = ("purge", "--match", "plain", "--keep-last", "1", "--plan-out", plan)
    assert desk.run(*words).code == 0
    assert desk.verified() == (1, {**states, "threads": "kept", "plans": "kept"})


def test_a_saved_plan_keeps_whose_memory_it_is_and_which_folder_was_named(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.remember(("users", "anna-1"), "likes tea")
    words = ("threads", "delete", "resumed", "--archive", desk.archives, "--yes")
    assert desk.run(*words).code == 0
    plan = desk.folder / "plan.ndjson"
    named = ("--memory-namespace", "users/{user}", "--archives", "archives")
    saved = desk.run("erase", *SUBJECT, *named, "--plan-out", plan)
    assert saved.code == 0, saved.err
    monkeypatch.chdir("/")
    done = desk.run("apply", plan, "--yes")
    assert done.code == 0, done.err
    assert list(desk.archives.rglob("*.ckpt.gz")) == []
    assert desk.threads == {"other"}
    assert desk.run("memory", "list", "-o", "json").json == []


def test_a_folder_without_its_name_is_not_called_checked(tmp_path: Path) -> None:
    store, receipt = tmp_path / "a.db", tmp_path / "receipt.json"
    folder = tmp_path / f"{KYOTO}_old"
    assert ckpt("demo", store).code == 0
    assert ckpt("-s", store, "export", KYOTO, "--to", folder).code == 0
    shutil.copytree(folder, tmp_path / "kept")
    words = (KYOTO, "--archives", folder, "--receipt", receipt, "--yes")
    # The archive that cannot be read may be of anybody.
    damaged = folder / "it%27s%20bert-968ccf654c35-20260101T000000Z.ckpt.gz"
    damaged.write_bytes(b"cut off")
    assert ckpt("-s", store, "erase", *words).code == 7
    told = json.loads(receipt.read_text())
    assert told["folders"] == [f"{tmp_path}/[erased]_old"]
    left = (one for one in told["places"] if one["state"] == "kept")
    (place,) = ((one["store"], one["reason"].partition(":")[0]) for one in left)
    erased = f"{tmp_path}/[erased]_old/[erased].ckpt.gz"
    assert place == (erased, f"cannot read '{erased}'")
    assert "bert" not in receipt.read_text()
    damaged.unlink()
    assert ckpt("-s", store, "erase", *words).code == 0
    assert "kyoto" not in receipt.read_text().replace(str(tmp_path), "")
    verify = ("-s", store, "erase", "--verify", receipt)
    unnamed = ckpt(*verify)
    assert (unnamed.code, "--archives" in unnamed.err) == (7, True)
    assert ckpt(*verify, "--archives", folder).code == 0
    shutil.copytree(tmp_path / "kept", folder, dirs_exist_ok=True)
    assert ckpt(*verify, "--archives", folder).code == 1
