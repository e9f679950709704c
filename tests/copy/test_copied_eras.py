"""Threads of older releases are copied into stores of the newest, which reads the same there."""

import json
from collections.abc import Collection
from typing import Any

import pytest
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from ckpt_backends.registry import open_store
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.scenarios import truth
from tests.copy.round_trip import copy_all
from tests.kit.command import FIXTURES, ckpt, copy_store
from tests.kit.differing import difference
from tests.kit.harness.postgres import PostgresHarness, ShallowPostgresHarness
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.official import what_is_read
from tests.kit.pairs import PYTHON, Places
from tests.kit.stores import restore

ON_SQLITE = ("lg-0.2.14-json", "lg-0.2.14", "lg-0.2.70", "lg-0.6.11", "lg-1.0.10", "lg-1.2.22")
ON_POSTGRES = ("lg-0.2.14-json", "lg-0.2.70", "lg-0.6.11", "lg-0.6.11-shallow", "lg-1.0.10")
REFUSED = {"postgres": {"zoo-floats", "zoo-text", "zoo-bytes"}, "sqlite": {"zoo-bytes"}}
"""Threads whose metadata or plain values a target cannot store. LangGraph 0.2 wrote bytes in a form
of JSON that no release reads."""


def check_copied(source: Harness, target: Harness) -> None:
    """Copy a store. What the newest saver reads of the source, it reads of the target, and what the
    library makes of DeltaChannels, whose values it computes.
    """
    skipped = copy_all(source, target)
    assert skipped.keys() <= REFUSED.get(target.name, set()), skipped
    with open_store(source.url) as store:
        names = [one.thread_id for one in store.threads() if one.thread_id not in skipped]
    assert len(names) > 50
    with quiet():
        for name in names:
            try:
                expected = read(source, name)
            except Exception:  # the newest saver cannot read this thread of an older one
                continue
            assert difference(read(target, name), expected, name) == ""
            if name.startswith("delta"):
                ours, theirs = (what_is_read(one, name) for one in (target, source))
                assert difference(ours, theirs, name) == ""
    for name in ("chat", "interrupt-nested", "subgraph", "fanout-send"):
        for words in (["history"], ["messages"]):
            answers = [
                ckpt("-s", one.url, *words, "-o", "json", "--", name) for one in (source, target)
            ]
            assert answers[0].code == answers[1].code, (name, words)
            if answers[0].code == 0:
                assert len(answers[0].json) == len(answers[1].json)


def read(harness: Harness, thread_id: str) -> Any:
    """What the newest saver reads of a thread."""
    saver = harness.corrected_saver(harness.kept_saver)
    found = []
    for one in saver.list({"configurable": {"thread_id": thread_id}}):
        body = dict(one.checkpoint)
        values, versions = body.pop("channel_values"), dict(body["channel_versions"])
        # Some savers move the Sends of an old format here when they list checkpoints, others only
        # when they load the newest one.
        for found_in in (values, versions):
            found_in.pop("__pregel_tasks", None)
        # The snapshot of a DeltaChannel is stored with one or with all checkpoints of its version.
        values = {
            name: value for name, value in values.items() if not isinstance(value, _DeltaSnapshot)
        }
        place = one.config["configurable"]
        found.append(
            {
                "id": place["checkpoint_id"],
                "ns": place["checkpoint_ns"],
                "parent": (one.parent_config or {}).get("configurable", {}).get("checkpoint_id"),
                "metadata": truth.encode(one.metadata),
                "values": {name: truth.encode(value) for name, value in values.items()},
                "versions": {
                    name: int(str(one).partition(".")[0]) for name, one in versions.items()
                },
                "writes": sorted(json.dumps(truth.encode(one)) for one in one.pending_writes or ()),
            }
        )
    return sorted(found, key=lambda one: (one["ns"], one["id"]))


def some(eras: Collection[str], *chosen: str) -> list[Any]:
    """Return eras as parameters: those that differ most are tested with `-m engines`."""
    return [
        pytest.param(one, marks=pytest.mark.engines if one in chosen else pytest.mark.nightly)
        for one in eras
    ]


@pytest.mark.in_ci("lg-0.6.11-postgres")
@pytest.mark.parametrize(
    "target", ["postgres", pytest.param("langgraph-dev", marks=pytest.mark.nightly)]
)
@pytest.mark.parametrize("era", some(ON_SQLITE, "lg-0.2.14-json", "lg-0.6.11"))
def test_a_file_of_an_older_era_is_copied(
    era: str, target: str, places: Places, tmp_path: Any
) -> None:
    store = copy_store(FIXTURES / era / "store.db", tmp_path)
    with SqliteHarness.at(str(store)) as source, places(PYTHON[target]) as place:
        check_copied(source, place)


@pytest.mark.in_ci("lg-0.6.11")
@pytest.mark.parametrize("era", some(ON_POSTGRES, "lg-0.2.70", "lg-0.6.11-shallow"))
def test_a_database_of_an_older_era_is_copied(era: str, places: Places, postgres_url: str) -> None:
    restore(FIXTURES / "postgres" / era / "store.sql.gz", postgres_url)
    kind = ShallowPostgresHarness if era.endswith("shallow") else PostgresHarness
    with kind.at(postgres_url) as source, places(SqliteHarness) as place:
        check_copied(source, place)
