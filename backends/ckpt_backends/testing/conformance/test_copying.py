"""A thread that is copied to a SQLite file and back is the same thread, and goes on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.model import Record
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_backends.testing.command_line import CommandResult, ckpt
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.library import EmptyStore
from ckpt_backends.transfer.copying import languages_of, records_of_rows, refusal
from ckpt_cli.queries.stores import language_of

NAME = "copied"


@pytest.fixture
def asking(empty_store: EmptyStore) -> Iterator[EmptyStore]:
    """A store with a thread that waits for an answer."""
    with quiet():
        empty_store.fill(NAME, asks=True)
        yield empty_store
        empty_store.clear()


def refused(source: EmptyStore, *, back: bool) -> str:
    """Return why a thread cannot be copied to SQLite, or back from there; `''` if it can."""
    with open_store(source.url) as store:
        layout, language = store.describe().layout, language_of(store)
    assert language is not None
    names = ("sqlite", layout) if back else (layout, "sqlite")
    return refusal(*names, language)


def copied(source: Path | str, target: Path | str, *words: str) -> CommandResult:
    return ckpt("-s", source, "copy", NAME, "--to", target, *words, "--yes", "-o", "json")


def told(url: Path | str, words: str) -> Any:
    return comparable(ckpt("-s", url, words, NAME, "-o", "json").json)


def comparable(answer: Any) -> Any:
    """An answer without what differs between serializers, and with versions as numbers.

    Some savers count versions as texts with a random part. Only some layouts tell that a checkpoint
    without a parent begins a run, or whose a thread is.
    """
    if isinstance(answer, list):
        return [comparable(one) for one in answer]
    if not isinstance(answer, dict):
        return answer
    stored = {"type", "bytes"} if "channel" in answer else {"begins_run", "user"}
    found = {name: comparable(one) for name, one in answer.items() if name not in stored}
    if isinstance(found.get("versions"), dict):
        found["versions"] = {
            name: int(str(one).partition(".")[0]) for name, one in found["versions"].items()
        }
    return found


def check_addition(store: EmptyStore, target: Path) -> None:
    """Let the thread go on. Check that a copy brings what was added."""
    assert store.library.answer(NAME, "it")["items"] == ["in", "first it", "second"]
    done = copied(store.url, target).json
    assert done["verified"]
    assert done["checkpoints"] > 0
    if store.harness.has_history:
        assert done["added"] > 0
        assert done["present"] > 0
        assert told(store.url, "history") == told(target, "history")


def test_a_thread_comes_back_from_a_copy(asking: EmptyStore, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    done = copied(asking.url, target, "--create")
    if reason := refused(asking, back=False):
        assert (done.code, reason in done.err) == (4, True)
        return
    assert done.code == 0, done.err
    assert done.json["verified"]
    for words in ("history", "show"):
        assert told(asking.url, words) == told(target, words)
    if reason := refused(asking, back=True):
        done = copied(target, asking.url)
        assert (done.code, reason in done.err) == (4, True)
        check_addition(asking, target)
        return
    before = asking.read(NAME)
    asking.library.forget(NAME)
    done = copied(target, asking.url)
    if "is empty" in done.err:  # A store of keys alone is gone with its last thread.
        done = copied(target, asking.url, "--create")
    assert done.code == 0, done.err
    assert asking.read(NAME) == before
    assert copied(target, asking.url).json["added"] == 0
    check_addition(asking, target)


def test_records_of_threads_are_those_of_their_rows(store: Store) -> None:
    layout = store.describe().layout
    if not languages_of(layout):
        return  # nothing can be copied from it
    threads = [one.thread_id for one in store.threads()]
    together: dict[str, list[Record]] = {one: [] for one in threads}
    for record in store.records_of(threads):
        together[record.key.thread_id].append(record)
    for one in threads:
        wanted = list(records_of_rows(layout, store.rows(one)))
        assert sorted(map(repr, store.records_of([one]))) == sorted(map(repr, wanted))
        assert sorted(map(repr, together[one])) == sorted(map(repr, wanted))
