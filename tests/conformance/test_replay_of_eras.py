"""Every transition of every fixture follows from its writes, or says why that cannot be told."""

from collections.abc import Mapping, Set
from pathlib import Path

import pytest

from ckpt_backends.encryption import DecryptingStore
from ckpt_backends.registry import open_store
from ckpt_backends.testing.conformance.replaying import check_reports, replay_store
from ckpt_cli.core.replay import Replayed, Verdict
from tests.kit.command import FIXTURES, agents, copy_store, eras
from tests.kit.eras import with_engines
from tests.kit.stores import restore, restore_keys, restore_rows

KEY = b"0123456789abcdef"
UNVERIFIABLE = {
    "lg-0.2.14-json": {"update_state"},
    "lg-0.2.14": {"update_state"},
    "lg-0.2.70": {"update_state", "share the rows", "before it is not stored"},
    "lg-0.4.10": {"update_state", "fork was given", "share the rows", "writes of its tasks"},
    "lg-0.6.11": {"update_state", "durability", "writes of its tasks"},
    # Savers for Redis gave keys another form when they loaded a value, and saved it with the next.
    "lg-1.0.3": {"update_state", "durability", "writes of its tasks", "share the rows", "in place"},
    "lg-1.0.10": {
        *("update_state", "durability", "writes of its tasks", "share the rows", "in place")
    },
    "lg-1.2.22": {"update_state", "durability"},
    "js-0.2.74": {"update_state", "share the rows"},
    "js-1.7.3": {"update_state", "share the rows", "durability", "fork was given"},
    "postgres": {"update_state", "durability", "share the rows"},
}
"""By era, what may not be stored there: the words of each reason."""
MOST = {"lg-1.2.22-serde": 0}
"""So many transitions may be unverifiable; a twenty-fifth elsewhere."""
DAMAGED: dict[str, set[tuple[str, int | None, str]]] = {
    "js-0.2.74": {("fork-update", 2, "items"), ("fork-chat", 1, "messages")},
    "js-1.7.3": {("fork-asking", 3, "items")},
}
"""LangGraph.js keys a value on PostgreSQL by a number that two branches share: the later one's
value is not stored, and its own library reads that of the other branch, as `truth` says."""


def check(
    reports: Mapping[str, Replayed],
    era: str,
    damaged: Set[tuple[str, int | None, str]] = frozenset(),
) -> None:
    """Assert that each transition of an era is explained."""
    known = UNVERIFIABLE.get(era, set())
    check_reports(reports, known, damaged, most=MOST.get(era))


@pytest.mark.in_ci("lg-0.2.14-json", "lg-1.2.22", "js-1", "deepagents-0.7")
@pytest.mark.parametrize("folder", [*eras(), *agents()], ids=lambda path: path.name)
def test_every_transition_of_an_era_is_explained(folder: Path, tmp_path: Path) -> None:
    store = open_store(str(copy_store(folder / "store.db", tmp_path)))
    with DecryptingStore(store, lambda: [KEY], lambda _: None) as opened:
        check(replay_store(opened), folder.name)


@pytest.mark.parametrize("folder", with_engines("postgres", "lg-0.2.70"))
def test_every_transition_on_postgresql_is_explained(folder: Path, postgres_url: str) -> None:
    restore(folder / "store.sql.gz", postgres_url)
    with open_store(postgres_url) as store:
        reports = replay_store(store)
    if "shallow" in folder.name:
        assert not any(one.verdicts.get(Verdict.MISMATCH) for one in reports.values())
    else:
        check(reports, folder.name)


@pytest.mark.parametrize("folder", with_engines("redis", "lg-0.4.10"))
def test_every_transition_on_redis_is_explained(folder: Path, redis_stack_url: str) -> None:
    restore_keys(folder / "store.jsonl.gz", redis_stack_url)
    with open_store(redis_stack_url) as store:
        # langgraph-checkpoint-redis 0.1.3 lets what `update_state` wrote replace what the task of
        # the same id had written before: such steps cannot be verified.
        check(replay_store(store), folder.name)


@pytest.mark.parametrize(
    "era",
    [
        pytest.param("js-0.2.74", marks=pytest.mark.nightly),
        pytest.param("js-1.7.3", marks=pytest.mark.nightly),
    ],
)
def test_every_transition_of_js_on_postgresql_is_explained(era: str, postgres_url: str) -> None:
    restore_rows(FIXTURES / era / "postgres.jsonl.gz", postgres_url)
    with open_store(postgres_url) as store:
        check(replay_store(store), era, DAMAGED[era])


def test_a_custom_reducer_is_not_guessed(tmp_path: Path) -> None:
    path = copy_store(FIXTURES / "lg-1.2.22" / "store.db", tmp_path)
    with open_store(str(path)) as store:
        about = replay_store(store)["reducers"].channels["", "longest"]
    assert about.judgement.reducer is None
    assert about.verdicts[Verdict.UNVERIFIABLE] == 1
