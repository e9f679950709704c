"""What only Firestore has: partitions whose names are ambiguous, moments, transactions, limits."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from google.api_core import exceptions as answers
from google.cloud import firestore
from langgraph.checkpoint.base import empty_checkpoint

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.firestore import connect, write
from ckpt_backends.registry import open_store
from ckpt_backends.testing.chance import Chance
from ckpt_backends.url import parse_url
from tests.engines.answers import COMMANDS, items_of, refuses
from tests.kit.agents.steps import config_of, graph_of, talk
from tests.kit.cases import cases
from tests.kit.command import ckpt, ids_of
from tests.kit.harness.firestore import COLLECTION, FirestoreHarness
from tests.kit.servers import free_port

pytestmark = pytest.mark.engines
LAYOUT = "firestore"


def document(place: FirestoreHarness, *path: str) -> Any:
    return place.client.document(COLLECTION, *path)


def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", f"127.0.0.1:{free_port()}")
    monkeypatch.setattr(connect, "_RETRY", connect._RETRY.with_timeout(0.1))
    refuses("firestore://demo-one", "threads", "list", says="the server does not answer")


@cases(
    "kind said says",
    (answers.PermissionDenied, "Missing or insufficient permissions.", "access denied"),
    (answers.NotFound, "The database (default) does not exist", "no such project or database"),
    (answers.Unauthenticated, "C4nary", "the credentials are not accepted"),
    (answers.ResourceExhausted, "Quota exceeded.", "a quota is exhausted"),
    (answers.FailedPrecondition, "The query requires an index.", "The query requires an index."),
)
def test_an_error_of_google_is_explained(kind: Any, said: str, says: str) -> None:
    """The emulator has neither rights nor quotas."""
    with (
        pytest.raises(StoreUnavailable, match=f"cannot read 'firestore://one': {says}"),
        connect.explained(parse_url("firestore://one")),
    ):
        raise kind(said)


def test_without_credentials_it_is_said_how_to_get_some(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRESTORE_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    answer = refuses("firestore://demo-one", "threads", "list", says="no Google credentials found")
    assert "gcloud auth application-default login" in answer.err


def test_a_collection_of_something_else_is_refused(place: FirestoreHarness) -> None:
    place.client.document("users", "ann").set({"name": "Ann"})
    url = f"firestore://{place.project}?collection=users"
    refuses(url, "threads", "list", says="no checkpoints of FirestoreSaver")
    talk(place.kept_saver, "trip")
    # Whoever looks at a partition in the console may have made it a document.
    document(place, "trip_").set({})
    ckpt("-s", place.url, "show", "trip", code=0)


def test_threads_whose_ids_begin_alike(place: FirestoreHarness) -> None:
    names = ["trip", "trip_", "trip_x", "trip_x_", "tri", "trip_: padded ", "__trip", "a.b"]
    talk(place.kept_saver, *names)
    reports: list[str] = []

    class Observer:
        def scanning(self, label: str, done: int, total: int | None) -> None:
            assert (label, done, total) == ("reading the keys of all checkpoints", 0, None)

        def scanned(self, report: str) -> None:
            reports.append(report)

    with open_store(place.url) as store:
        store.observe_scans(Observer())
        threads = list(store.threads())
        assert threads == list(store.threads())
    assert reports == ["read the keys of 32 checkpoints"]
    assert {one.thread_id: one.checkpoints for one in threads} == dict.fromkeys(names, 4)
    before = {name: place.rows(name) for name in names}
    for name in ("trip", "trip_x"):
        ckpt("-s", place.url, "threads", "delete", name, "--yes", code=0)
        before[name] = {"checkpoints": [], "writes": []}
    assert {name: place.rows(name) for name in names} == before


def test_what_a_person_added_is_read_and_not_archived(place: FirestoreHarness) -> None:
    talk(place.kept_saver, "trip")
    head, *_ = ids_of(place.url, "trip")
    document(place, "trip_", "checkpoints", head).update({"note": "C4nary"})
    assert items_of(place.url, "trip") == ["in trip", "from a", "from b"]
    refuses(place.url, "copy", "trip", "--as", "other", "--yes", says="not as its saver stores it")
    assert list(place.client.collection_group("checkpoints").where("note", "==", "C4nary").stream())
    ckpt("-s", place.url, "threads", "delete", "trip", "--yes", code=0)
    assert place.fingerprint() == ({}, {})


JUNK: tuple[Any, ...] = (
    *(None, True, -7, 1e300, "C4nary?", "a/b//c/d", "", b"\xff"),
    *([1, "x"], ["x", 1], {"a": {}}),
)
FIELDS = {
    "checkpoints": ("checkpoint", "checkpoint_key", "metadata", "parent_checkpoint_id", "type"),
    "writes": ("channel", "checkpoint_key", "idx", "task_id", "task_path", "type", "value"),
}


def test_a_field_of_any_type_stops_no_command(place: FirestoreHarness, chance: Chance) -> None:
    talk(place.kept_saver, "trip")
    fields = [(group, field) for group in FIELDS for field in FIELDS[group]]
    chosen = [*enumerate(next(chance.rounds()).sample([*product(fields, JUNK)], 12))]
    for number, _ in chosen:
        place.copy("trip", f"trip-{number}")
    for number, ((group, field), junk) in chosen:
        path = max(place.documents(group, f"trip-{number}"))
        place.client.document(path).update({field: junk})
    for words in (*COMMANDS, *([*one, "trip-0"] for one in (["show"], ["history"]))):
        ckpt("-s", place.url, *words).ends_cleanly(0, 1, 4, 7)
    for number, _ in chosen:
        removed = ckpt("-s", place.url, "threads", "delete", f"trip-{number}", "--yes")
        assert removed.code in {0, 3}, removed.err


def test_a_run_is_found_in_what_was_copied(place: FirestoreHarness) -> None:
    """The Agent Server names the run in the metadata, and lets the saver remove what it stored."""
    saver, metadata = place.kept_saver, {"source": "input", "step": -1, "run_id": "first"}
    saver.put(config_of("trip"), empty_checkpoint(), metadata, {})
    ckpt("-s", place.url, "copy", "trip", "--as", "other", "--yes", code=0)
    assert [one["run_id"] for one in place.documents("checkpoints").values()] == ["first", "first"]
    saver.delete_for_runs(["first"])
    assert place.fingerprint() == ({}, {})


def test_a_thread_that_another_transaction_holds_is_not_changed(place: FirestoreHarness) -> None:
    talk(place.kept_saver, "trip")
    before = place.fingerprint()

    @firestore.transactional
    def held(transaction: Any) -> None:
        found = document(place, "trip_").collection("checkpoints").stream(transaction=transaction)
        assert len(list(found)) == 4
        says = "has the lock of a killed run; nothing"
        refuses(place.url, "threads", "delete", "trip", "--yes", says=says)

    held(place.client.transaction())
    assert place.fingerprint() == before


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object] | None]:
    """What is done before each batch is stored; a transaction takes only a few documents."""
    monkeypatch.setattr(write, "_MOST", 1500)
    asked: list[Callable[[], object] | None] = []
    commit = firestore.WriteBatch.commit

    def watched(self: Any, *given: Any, **named: Any) -> Any:
        if asked and (act := asked.pop(0)) is not None:
            act()
        return commit(self, *given, **named)

    monkeypatch.setattr(firestore.WriteBatch, "commit", watched)
    return asked


def test_a_long_thread_is_added_in_parts(place: FirestoreHarness, batches: list[Any]) -> None:
    talk(place.kept_saver, "trip")
    graph, seen = graph_of(place.kept_saver), list[int]()
    batches += [lambda: seen.append(len(place.rows("other")["checkpoints"]))] * 9
    ckpt("-s", place.url, "copy", "trip", "--as", "other", "--yes", code=0)
    assert place.rows("other") == place.rows("trip")
    assert graph.get_state(config_of("other")).values == graph.get_state(config_of("trip")).values
    assert (seen[0], max(seen) < 4, len(seen) > 1) == (0, True, True)


def test_no_part_stays_if_one_is_not_taken_or_beside_what_a_saver_adds(
    place: FirestoreHarness, batches: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(place.kept_saver, "trip")
    before, copying = place.fingerprint(), ("copy", "trip", "--as", "other", "--yes")

    def refuse() -> None:
        raise answers.PermissionDenied("Missing or insufficient permissions.")  # type: ignore[no-untyped-call]

    batches += [None, refuse]
    refuses(place.url, *copying, says="access denied")
    with monkeypatch.context() as patch:
        patch.setattr(write, "_OF_A_DOCUMENT", 400)
        refuses(place.url, *copying, says="at most 1 MiB")
    assert place.fingerprint() == before
    batches += [None, lambda: talk(place.kept_saver, "other")]
    refuses(place.url, *copying, says="changed meanwhile", code=6)
    sizes = {name: len(rows) for name, rows in place.rows("trip").items()}
    assert {name: len(rows) for name, rows in place.rows("other").items()} == sizes
