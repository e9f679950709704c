"""A secret is erased from a thread, and a thread is encrypted: the graph goes on as if it had run
like that.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.declaration import known_backends
from ckpt_backends.erasing.formats import Erasure
from ckpt_backends.erasing.thread import ThreadEraser
from ckpt_backends.errors import StoreChanged
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.rows import RowEdit
from ckpt_backends.testing.encrypted import KEY, NEW, key_of, types_of
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.leaky import (
    OTHER,
    SECRET,
    THREAD,
    TWIN,
    ask,
    history,
    places_of,
    replaced,
    resumed,
    skeleton,
)
from ckpt_backends.testing.library import EmptyStore
from ckpt_backends.transfer.copying import form_of
from ckpt_backends.transfer.form import Language, Serializer
from ckpt_backends.url import parse_url
from ckpt_cli.queries.stores import language_of

IN_CALL = "tool_calls[0].args.password"
ERASE = ("erase", "--yes", "-o", "json", "--value")


@pytest.fixture
def leaky(empty_store: EmptyStore) -> Iterator[EmptyStore]:
    """A store with a thread that holds a secret, and one with a marker in its place."""
    if empty_store.harness.recording is not None:
        pytest.skip("its graphs do not run in Python")
    with quiet():
        for thread_id, secret in ((THREAD, SECRET), (OTHER, SECRET), (TWIN, "[erased]")):
            ask(empty_store.harness, thread_id, secret)
            empty_store.made.append(thread_id)
        yield empty_store
        empty_store.clear()


def skip_without_edits(store: EmptyStore, *words: str, typed: bool = False) -> None:
    """Skip a test of a layout whose rows cannot get other values. Assert that a command says so.

    If `typed`, its values must be those of LangGraph's serializer, which are alone encrypted, and
    its saver must take one that encrypts.
    """
    with open_store(store.url) as opened:
        layout, language = opened.describe().layout, language_of(opened) or Language.PYTHON
    (backend,) = (one for one in known_backends() if layout in one.layouts)
    form = form_of(layout, language)
    is_typed = form is not None and form.serializer is Serializer.TYPED and form.can_encrypt
    if backend.edits and (is_typed or not typed):
        return
    before = store.harness.fingerprint()
    refused = store.ckpt(*words)
    assert (refused.code, store.harness.fingerprint()) == (4, before), refused
    pytest.skip("rows get no other values")


def test_a_secret_is_found_and_not_told(leaky: EmptyStore) -> None:
    pytest.importorskip("detect_secrets")
    answer = leaky.ckpt("secrets", THREAD, "-o", "json")
    assert answer.code == 1, answer.err
    assert SECRET not in answer.out + answer.err
    found = {(one["place"], one["path"]) for one in answer.json}
    assert found >= {("value", "card.password"), ("value", f"messages[1].{IN_CALL}")}
    assert (("write", f"messages[0].{IN_CALL}") in found) == leaky.harness.has_writes
    assert leaky.ckpt("secrets", TWIN, "-o", "json").json == []


def test_an_erased_value_is_in_no_row_and_the_graph_goes_on(leaky: EmptyStore) -> None:
    harness, url = leaky.harness, leaky.url
    skip_without_edits(leaky, *ERASE, f"{THREAD}:card.password")
    rows, before = leaky.rows(OTHER), history(harness, THREAD)
    ids = skeleton(url, THREAD)
    assert places_of(url, THREAD)
    _check_that_other_rows_are_not_replaced(leaky)
    done = leaky.ckpt(*ERASE, f"{THREAD}:card.password").json
    kinds = {one["place"] for one in done["places"]}
    assert kinds >= ({"value", "write"} if harness.has_writes else {"value"})
    assert places_of(url, THREAD) == []
    assert skeleton(url, THREAD) == ids
    assert leaky.rows(OTHER) == rows
    if not harness.stores_pickles:
        numbers = leaky.ckpt(*ERASE, f"{THREAD}:pin", "--value", f"{THREAD}:sums[2].amount").json
        assert {one["path"] for one in numbers["places"]} >= {"pin", "sums[2].amount"}
        for one in before:
            _erase_numbers(one[1])
    assert leaky.ckpt("doctor", "--deep", THREAD).code == 0
    if harness.values_only:
        return  # the library has its own copy
    assert history(harness, THREAD) == replaced(before)
    # kagent's saver takes all writes for those of the task with the greatest id, which is another
    # one in each thread.
    if harness.has_writes and harness.name != "kagent":
        expected = resumed(harness, TWIN)
        _erase_numbers(expected)
        assert resumed(harness, THREAD) == expected


def _erase_numbers(values: dict[str, Any]) -> None:
    """Erase in a state the numbers that are erased in the store."""
    if "pin" in values:
        values["pin"] = 0
    if len(values.get("sums", ())) > 2:
        values["sums"][2]["amount"] = 0


def _check_that_other_rows_are_not_replaced(store: EmptyStore) -> None:
    """Replace rows of which the last is not as it is said to be."""
    rows = store.rows(THREAD)
    with open_store(store.url) as opened:
        eraser = ThreadEraser(opened.describe().layout, Erasure(frozenset({SECRET})), None)
        first, last, *_ = eraser.edits(list(opened.rows(THREAD)))
    with open_writable(parse_url(store.url)) as writable:
        before = [first] if writable.applies_together else []
        with pytest.raises(StoreChanged):
            writable.replace(THREAD, [*before, RowEdit(last.new, last.stored)])
    assert store.rows(THREAD) == rows


def test_a_thread_is_encrypted_rekeyed_and_decrypted(leaky: EmptyStore, tmp_path: Path) -> None:
    pytest.importorskip("Crypto")
    harness, url = leaky.harness, leaky.url
    old, new = ("--aes-key-file", _file(tmp_path, KEY)), ("--aes-key-file", _file(tmp_path, NEW))
    rekey = ("rekey", THREAD, "--yes", "-o", "json")
    skip_without_edits(leaky, *rekey, "--encrypt", "--new-key-file", str(old[1]), typed=True)
    before = history(harness, THREAD, harness.kept_saver)
    encrypted = leaky.ckpt(*rekey, "--encrypt", "--new-key-file", old[1])
    assert encrypted.json["rekeyed"] > 0
    assert all(tag.endswith("+aes") for tag in types_of(url, THREAD) - {"json", "empty"})
    with key_of(harness, KEY):
        assert history(harness, THREAD, harness.kept_saver) == before
    done = leaky.ckpt(*old, *rekey, "--new-key-file", new[1]).json
    assert (done["rekeyed"], done["verified"]) == (encrypted.json["rekeyed"], True)
    again = leaky.ckpt(*old, *rekey, "--new-key-file", new[1]).json
    assert (again["rekeyed"], again["done_before"]) == (0, done["rekeyed"])
    with key_of(harness, KEY), pytest.raises(ValueError, match="MAC"):
        history(harness, THREAD, harness.kept_saver)
    assert leaky.ckpt(*ERASE, f"{THREAD}:card.password").code == 5
    assert leaky.ckpt(*new, *ERASE, f"{THREAD}:card.password").code == 0
    expected = replaced(before)
    with key_of(harness, NEW):
        assert history(harness, THREAD, harness.kept_saver) == expected
    assert leaky.ckpt(*new, *rekey, "--decrypt").json["rekeyed"] == done["rekeyed"]
    assert not any(tag.endswith("+aes") for tag in types_of(url, THREAD))
    assert bool(places_of(url, THREAD)) == (expected == before)
    assert history(harness, THREAD, harness.kept_saver) == expected


def _file(folder: Path, key: bytes) -> Path:
    path = folder / f"{len(key)}.key"
    path.write_bytes(key)
    path.chmod(0o600)
    return path
