"""Each checkpoint and transition of the fixtures reads as the LangGraph of its era read it."""

import gzip
import json
import os
import subprocess
from ast import literal_eval
from collections.abc import Collection, Set
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.encryption import DecryptingStore
from ckpt_backends.model import Status
from ckpt_backends.registry import open_store
from ckpt_backends.testing.conformance.comparison import Known, check_thread
from ckpt_backends.testing.conformance.replaying import check_reports, replay_store
from ckpt_cli.core.replay import Verdict
from ckpt_cli.reading.thread import TriggerInference, conditions_of_heads, read_heads
from tests.kit.command import FIXTURES, copy_store
from tests.kit.eras import MINOR_RELEASES, check_store, environment
from tests.kit.stores import restore, restore_documents, restore_keys, restore_rows

KEY = b"0123456789abcdef"
NEVER_RAN = {("error", 1), ("update-fresh", 0)}
"""A node that never ran in the thread is next, and bodies with `v` < 4 do not name it."""
PARTLY_FINISHED = {"error-parallel": ["boom"], "interrupt-parallel": ["ask_a", "ask_b"]}
"""The newest library computes other task ids than those stored, so it lists finished tasks too."""
OLDEST = Known(
    next_unknown=frozenset(
        NEVER_RAN | {("breakpoint-subgraph", 1), ("interrupt-nested", 1), ("update-asking", 2)}
    ),
    open_ends=True,
    waiting={**PARTLY_FINISHED, "interrupt-sends": ["worker"] * 3},
    lost_interrupts=True,
)
# LangGraph.js takes the answer to one of two questions for the task's output.
JAVASCRIPT = Known(waiting={"interrupt-second": ["ask"]})
KNOWN = {
    "lg-0.2.14-json": replace(OLDEST, sparse_objects=True),
    "lg-0.2.14": OLDEST,
    "lg-0.2.70": Known(
        next_unknown=frozenset(NEVER_RAN),
        open_ends=True,
        waiting={
            **PARTLY_FINISHED,
            "interrupt-one-answered": ["ask_b"],
            "interrupt-sends": ["worker"] * 2,
        },
    ),
    "lg-0.6.11": Known(),
    "lg-1.0.10": Known(),
    "lg-1.2.22": Known(),
    "lg-1.2.22-serde": Known(printed=True),
    "js-0.2.74": JAVASCRIPT,
    "js-1.7.3": JAVASCRIPT,
    "agents/deepagents-0.6": Known(),
    "agents/deepagents-0.7": Known(),
}
HALF_STORED: dict[str, list[str]] = {"zoo-floats": [], "zoo-text": []}
"""The saver failed on the checkpoint after the task's writes; see `PARTLY_FINISHED`."""


def on_postgres(era: str, known_there: Set[tuple[str, int]], half_stored: Collection[str]) -> Known:
    """What is known of an era, where async threads are left out, and paths may tell more."""
    known = KNOWN[era]
    waiting = {**(known.waiting or {}), **{name: HALF_STORED[name] for name in half_stored}}
    left = known.next_unknown - known_there - {("async-asking", 1)}
    return replace(known, next_unknown=left, waiting=waiting)


KNOWN_ON_POSTGRES = {
    "lg-0.2.14-json": on_postgres("lg-0.2.14-json", set(), HALF_STORED),
    "lg-0.2.70": on_postgres("lg-0.2.70", {("error", 1)}, ["zoo-floats"]),
    "lg-0.6.11": Known(),
    "lg-0.6.11-shallow": Known(),
    "lg-1.0.10": Known(),
}

# The newest saver cannot read the writes of 0.0 and 0.1, so that it does not say what waits there.
KNOWN_ON_REDIS = {
    "lg-0.4.10": Known(
        sparse_objects=True,
        waiting={"interrupt-second": ["ask"], "interrupt-twice-answered": ["ask"]},
    ),
    "lg-0.6.11": Known(sparse_objects=True, waiting={"interrupt-second": ["ask"]}),
    "lg-1.0.3": Known(sparse_objects=True),
    "lg-1.0.10": Known(sparse_objects=True),
}
MANGLED_ON_REDIS = {
    "lg-0.4.10": {"zoo-bytes"},
    "lg-0.6.11": {"zoo-pydantic", "zoo-times"},
    "lg-1.0.3": {*("zoo-pydantic", "zoo-times", "zoo-numpy", "zoo-path-regex", "zoo-uuid-decimal")},
    "lg-1.0.10": set[str](),
}
"""Values that a saver stores without a part of them; 0.4.1 refuses those."""
MONGODB = {"lg-0.2.70": "0.1 to 0.2.1", "lg-0.6.11": "0.1 to 0.2.1", "lg-1.0.10": "0.2.2 or later"}
"""By era, what is said of its saver: 0.1.0, 0.2.1 and 0.3.1."""
KNOWN_ON_MONGODB = {
    "lg-0.2.70": replace(
        KNOWN["lg-0.2.70"], next_unknown=KNOWN["lg-0.2.70"].next_unknown - {("async-asking", 1)}
    ),
    "lg-0.6.11": Known(),
    "lg-1.0.10": Known(),
}

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


def truth_of(path: Path) -> Any:
    """What an era's library said of its store."""
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def check(url: str, truth: Any, known: Known, era: str, damaged: Set[Any] = frozenset()) -> None:
    """Assert that a store reads as its truth says, and each of its transitions is explained."""
    check_store(url, truth, known)
    with DecryptingStore(open_store(url), lambda: [KEY], lambda _: None) as store:
        reports = replay_store(store)
    if "shallow" in era:
        assert not any(one.verdicts.get(Verdict.MISMATCH) for one in reports.values())
    else:
        check_reports(reports, UNVERIFIABLE.get(era, set()), damaged, most=MOST.get(era))


@pytest.mark.in_ci("lg-0.2.14-json", "lg-0.6.11", "lg-1.2.22", "js-1", "agents/deepagents-0.7")
@pytest.mark.parametrize("era", KNOWN)
def test_a_store_of_an_older_era_reads_as_its_library_read_it(era: str, tmp_path: Path) -> None:
    truth = truth_of(FIXTURES / era / "truth.json")
    store = copy_store(FIXTURES / era / "store.db", tmp_path)
    check(str(store), truth, KNOWN[era], era)


@pytest.mark.parametrize("era", ["lg-0.2.14", "lg-0.2.70"])
def test_one_that_waits_at_a_breakpoint_of_an_era_is_never_done(era: str, tmp_path: Path) -> None:
    """What no other thread tells is unknown."""
    folder = FIXTURES / "breakpoints" / era
    truth = truth_of(folder / "truth.json")["next"]
    with open_store(str(copy_store(folder / "store.db", tmp_path))) as store:
        inference = TriggerInference(store)
        read = dict(conditions_of_heads(store, list(store.threads()), inference))
        heads = list(read_heads(store, list(store.threads()), inference))
    following = {one.key.thread_id: one.step.next for one in heads}
    assert following.pop("alone") is None
    assert truth.pop("alone") == []
    assert read.pop("alone") == (Status.UNKNOWN,)
    assert {name: nodes and list(nodes) for name, nodes in following.items()} == {
        name: nodes or () for name, nodes in truth.items()
    }
    assert read == {
        name: (Status.PENDING if nodes else Status.DONE,) for name, nodes in truth.items()
    }


@pytest.mark.in_ci("lg-0.2.14-json", "lg-0.2.70")
@pytest.mark.engines
@pytest.mark.parametrize("name", KNOWN_ON_POSTGRES)
def test_a_postgres_store_reads_as_its_library_read_it(name: str, postgres_url: str) -> None:
    folder = FIXTURES / "postgres" / name
    truth = truth_of(folder / "truth.json.gz")
    restore(folder / "store.sql.gz", postgres_url)
    check(postgres_url, truth, KNOWN_ON_POSTGRES[name], name)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("era", "suffix"),
    [*((era, "") for era in MONGODB), pytest.param("lg-0.6.11", "_aio", marks=pytest.mark.nightly)],
)
def test_a_mongodb_store_reads_as_its_library_did(era: str, suffix: str, mongodb_url: str) -> None:
    """Also under the names that AsyncMongoDBSaver took until 0.2."""
    folder = FIXTURES / "mongodb" / era
    restore_documents(folder / "store.bson.gz", mongodb_url, suffix)
    with open_store(mongodb_url) as store:
        info = store.describe()
    assert MONGODB[era] in info.saver
    assert [one.partition(".")[2] for one in info.tables] == [
        f"checkpoints{suffix}",
        f"checkpoint_writes{suffix}",
    ]
    check_store(mongodb_url, truth_of(folder / "truth.json.gz"), KNOWN_ON_MONGODB[era])


@pytest.mark.nightly
def test_two_generations_of_metadata_read_where_the_saver_fails(mongodb_url: str) -> None:
    from langgraph.checkpoint.mongodb import MongoDBSaver

    for era in ("lg-0.6.11", "lg-1.0.10"):
        store = FIXTURES / "mongodb" / era / "store.bson.gz"
        restore_documents(store, mongodb_url, prefix=f"{era} ")
    with MongoDBSaver.from_conn_string(mongodb_url, mongodb_url.rpartition("/")[2]) as saver:
        assert saver.get_tuple({"configurable": {"thread_id": "lg-1.0.10 chat"}}) is not None
        with pytest.raises(ValueError, match="too many values to unpack"):
            saver.get_tuple({"configurable": {"thread_id": "lg-0.6.11 chat"}})
        with pytest.raises(ValueError, match="too many values to unpack"):
            list(saver.list(None))
    with open_store(mongodb_url) as opened:
        assert "no release reads both" in opened.describe().saver
        inference = TriggerInference(opened)
        for era in ("lg-0.6.11", "lg-1.0.10"):
            threads = truth_of(FIXTURES / "mongodb" / era / "truth.json.gz")["threads"]
            for name in ("chat", "interrupt-nested", "fork-invoke", "subgraph-stateful"):
                check_thread(
                    opened, f"{era} {name}", threads[name], KNOWN_ON_MONGODB[era], inference
                )


@pytest.mark.in_ci("lg-0.4.10")
@pytest.mark.engines
@pytest.mark.parametrize("name", KNOWN_ON_REDIS)
def test_a_redis_store_reads_as_its_library_read_it(name: str, redis_stack_url: str) -> None:
    """Written by langgraph-checkpoint-redis 0.0.8, 0.1.3, 0.2.1 and 0.4.1."""
    folder = FIXTURES / "redis" / name
    truth = truth_of(folder / "truth.json.gz")
    for mangled in MANGLED_ON_REDIS[name]:
        del truth["threads"][mangled]
    restore_keys(folder / "store.jsonl.gz", redis_stack_url)
    # langgraph-checkpoint-redis 0.1.3 lets what `update_state` wrote replace what the task of the
    # same id had written before: such steps cannot be verified.
    check(redis_stack_url, truth, KNOWN_ON_REDIS[name], name)


@pytest.mark.nightly
@pytest.mark.parametrize("era", ["js-0.2.74", "js-1.7.3"])
def test_a_postgres_store_of_js_reads_as_its_library_did(era: str, postgres_url: str) -> None:
    truth = truth_of(FIXTURES / era / "postgres.truth.json")
    restore_rows(FIXTURES / era / "postgres.jsonl.gz", postgres_url)
    with open_store(postgres_url) as store:
        assert "LangGraph.js" in store.describe().saver
    check(postgres_url, truth, KNOWN[era], era, DAMAGED[era])


# Stores of LangGraph 1.2.0 to 1.2.12 read as these releases and the newest one read them

TORN = " is torn, run again"


@pytest.mark.release
@pytest.mark.parametrize("release", MINOR_RELEASES)
def test_a_store_of_a_release_reads_as_it_read_it(release: str, tmp_path: Path) -> None:
    """No fixture is kept of it: it writes its store here, in an environment made with pip."""
    script = [str(FIXTURES / "make" / "write.py"), f"lg-{release}", str(tmp_path)]
    torn: set[str] = set()
    for one, more in ((release, []), (version("langgraph"), ["--waiting"])):
        python, packages = environment(one)
        settings = {"PYTHONHASHSEED": "0", "PYTHONWARNINGS": "ignore", "PYTHONPATH": str(packages)}
        done = subprocess.run(
            [str(python), *script, *more],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, **settings},
        )
        # These releases may change a channel while it is being saved: such a thread has no truth.
        failed = literal_eval(done.stdout.partition(" failed: ")[2] or "[]")
        assert all(text.endswith(TORN) for text in failed), (failed, done.stderr[-4000:])
        assert done.returncode == bool(failed), done.stderr[-4000:]
        torn |= {text.removesuffix(TORN) for text in failed}
    truth = truth_of(tmp_path / "truth.json")
    for name in torn:
        del truth["threads"][name]
    assert len(truth["threads"]) > 90
    check_store(str(tmp_path / "store.db"), truth, Known())
