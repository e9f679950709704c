"""Runs commands on filled stores, and looks up what the official library says of them."""

from typing import Any

from ckpt_backends.protocol import Store
from ckpt_backends.testing.command_line import CommandResult, ckpt
from ckpt_backends.testing.conformance.comparison import as_printed, canonical, same
from ckpt_backends.testing.filling import FilledStore


def run(filled: FilledStore, *words: str) -> CommandResult:
    return ckpt("-s", filled.harness.url, *words)


def keeps_history(filled: FilledStore) -> bool:
    """Whether the past can be asked for; a layout without it is held to say so."""
    (found,) = run(filled, "stores", "-o", "json").json
    kept = "history" in found["capabilities"]
    assert kept == filled.harness.has_history
    if not kept:
        assert len(run(filled, "history", "chat", "-o", "json").json) == 1
        past = run(filled, "show", "chat@~1")
        assert (past.code, past.out) == (3, "")
        assert past.err.startswith("ckpt: ")
        assert run(filled, "diff", "chat").code == 0
    return kept


def has(filled: FilledStore, thread_id: str) -> bool:
    """Whether a scenario is in the store; its harness or the run declares why not."""
    there = thread_id in filled.threads
    was_run = filled.only is None or thread_id in filled.only
    assert there == (was_run and thread_id not in filled.harness.skipped_scenarios)
    return there


def equal(filled: FilledStore, got: Any, want: Any) -> bool:
    """Whether a value is the stored one, as far as its layout tells."""
    got, want = canonical(got), canonical(want)
    got = as_printed(got, want) if filled.harness.stores_pickles else got
    return same(got, want, sparse=filled.harness.omits_defaults)


def rows(filled: FilledStore, thread_id: str, namespace: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = filled.threads[thread_id]["history"].get(namespace, [])
    return found


def kinds_of_rows(store: Store, filled: FilledStore, thread_id: str) -> list[str]:
    """Return what each row of a thread holds, as its harness says."""
    known, tables = filled.harness.row_kinds, [one.table for one in store.rows(thread_id)]
    assert set(tables) <= set(known), "Harness.row_kinds must name each table of Store.rows"
    return [known[one] for one in tables]
