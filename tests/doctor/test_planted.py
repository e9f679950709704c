"""Each planted fault is found, the finding names exactly the row, and nothing else is found; its
fix mends it, and what would be refused is not printed as one."""

from __future__ import annotations

import json
import shlex
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from time import sleep
from typing import Any

import psycopg
import pymysql
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from ckpt_backends.declaration import bundled
from ckpt_backends.model import NULL_TASK_ID, Capability, make_id, ticks_at
from ckpt_backends.redis.engine import store as thread_faults
from ckpt_backends.registry import open_store
from ckpt_backends.sql import health
from ckpt_backends.testing.harness import Harness
from ckpt_cli.core.doctor.findings import CODES
from ckpt_cli.session import Session
from tests.doctor.asking import findings, only, run_fix
from tests.doctor.engine_faults import ELSEWHERE, ENGINE_FAULTS, LARGE, MENDED, EngineFault
from tests.kit.command import ckpt, first_now, program
from tests.kit.harness import HARNESSES
from tests.kit.harness.redis import PlainRedisSaverHarness
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.opening import empty_store
from tests.kit.planting.faults import (
    CHAT,
    FAULTS,
    NEW,
    THREADS,
    WAITING,
    Named,
    PlantedFault,
    kind_of,
)
from tests.kit.planting.planters import (
    KEY,
    PLANTERS,
    Place,
    Planter,
    SqlitePlanter,
    fill,
    id_after,
    id_at,
    id_before,
    time_of,
)

BACKENDS = {layout: one for one in bundled() for layout in one.layouts}
OCCURRENCE = program("docs/generate.py")
"""Where each code can occur, and what mends it there, as docs/doctor.md says."""
KINDS = {kind.name: kind for kind in HARNESSES if kind.name in PLANTERS}


@dataclass
class DamagedStore:
    """A store that its official saver filled, with one fault in a thread of its own each."""

    harness: Harness
    planted: dict[str, Named] = field(default_factory=dict)
    """By thread, what the finding must name."""
    quick: Any = None
    deep: Any = None
    types: Any = None
    """What `ckpt doctor` prints."""


def thread_of(fault: PlantedFault) -> str:
    """Return the id of the thread with a fault."""
    return f"{fault.code}-{FAULTS.index(fault)}"


def plant_all(harness: Harness) -> DamagedStore:
    rows: Planter[Any] = PLANTERS[harness.name](harness)
    store = DamagedStore(harness)
    for fault in FAULTS:
        if occurs(fault, harness.name):
            thread_id = thread_of(fault)
            if fault.thread != NEW:
                harness.copy(fault.thread, thread_id)
            store.planted[thread_id] = fault.plant(rows, thread_id)
    return store


def occurs(fault: PlantedFault, layout: str) -> bool:
    """Return whether a fault can be planted in a layout."""
    backend = BACKENDS[layout]
    if OCCURRENCE.why_not(fault.code, layout, backend):
        return False
    stored = {
        "spoilt values": PLANTERS[layout].spoils_values,
        "inner values": Capability.INLINE_VALUES in backend.layouts[layout],
    }
    return all(stored[need] for need in fault.needs)


PAIRS = [(name, fault) for name in KINDS for fault in FAULTS if occurs(fault, name)]
MARKS: dict[str, Any] = {"sqlite": ()}
"""The tiers of layouts, if not `engines`."""
CELLS = [
    pytest.param(
        name, fault, id=f"{name}-{thread_of(fault)}", marks=MARKS.get(name, pytest.mark.engines)
    )
    for name, fault in PAIRS
]


@pytest.fixture(scope="module")
def damaged_store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], DamagedStore]]:
    """Returns the store of a layout with all faults; each is made once."""
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv("LANGGRAPH_AES_KEY", KEY.decode())
        # Nobody writes, so that nothing has to be read again a second later.
        patch.setattr(thread_faults, "_PAUSE_SECONDS", 0.0)
        # A repair leaves alone what an agent may be about to use.
        patch.setattr(Session, "now", datetime.now(UTC) + timedelta(minutes=10))

        @cache
        def made(name: str) -> DamagedStore:
            folder = tmp_path_factory.mktemp("damaged")
            return damage(stack.enter_context(empty_store(KINDS[name], request, folder)))

        yield made


@pytest.fixture(scope="module")
def damaged(
    request: pytest.FixtureRequest, damaged_store: Callable[[str], DamagedStore]
) -> DamagedStore:
    return damaged_store(request.param)


def damage(harness: Harness) -> DamagedStore:
    """Return a store with all faults, and what the doctor says of it."""
    fill(harness, THREADS)
    store = plant_all(harness)
    words = ("-s", harness.url, "doctor", "--grace", "0s", "-o", "json")
    ends = time.monotonic() + (60 if harness.name == "redis" else 0)
    while time.monotonic() < ends and beside(store, told(*words)):
        time.sleep(0.5)  # the search index takes up what was written in the background
    store.quick = told(*words)
    store.deep = told(*words, "--deep")
    store.types = told(*words, "--types")
    for answer in (store.quick, store.deep):
        # Threads beside a damaged one have no finding.
        assert not beside(store, answer)
    return store


def beside(store: DamagedStore, answer: Any) -> list[Any]:
    """Return what is found in threads in which no fault was planted."""
    return [one for one in answer["findings"] if one["thread_id"] not in store.planted]


def told(*words: str) -> Any:
    """Return what the doctor prints of a store with faults."""
    answer = ckpt(*words)
    # Some layouts encrypt a value together with its address, so that it cannot be decrypted.
    assert answer.code in {1, 7}, answer.err
    return json.loads(answer.out)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "planted" in metafunc.fixturenames:
        metafunc.parametrize(("damaged", "planted"), CELLS, indirect=["damaged"], scope="module")


@pytest.mark.in_ci("sqlite", "postgres-", "redis-value")
def test_a_planted_fault_is_found(damaged: DamagedStore, planted: PlantedFault) -> None:
    named = damaged.planted[thread_of(planted)]
    if planted.types:
        check(damaged.types, planted, named)
        return
    if not planted.deep:
        check(damaged.quick, planted, named)
    check(damaged.deep, planted, replace(named, place=named.in_depth or named.place))


def check(answer: Any, planted: PlantedFault, named: Named) -> None:
    """Check the findings in the thread of a fault."""
    found = [one for one in answer["findings"] if one["thread_id"] == named.place.thread_id]
    said = [f"{one['code']} {one['channel']}: {one['detail']}" for one in found]
    own = [one for one in found if one["code"] == planted.code and one["channel"] == named.channel]
    assert len(own) == 1, said
    (one,) = own
    assert one["severity"] == CODES[planted.code].severity
    place = named.place
    assert one["checkpoint_ns"] == place.checkpoint_ns
    assert one["checkpoint_id"] == (place.checkpoint_id or None)
    if named.task_id is not None:
        assert one["task_id"] == named.task_id
    assert {other["code"] for other in found if other is not one} <= planted.follows, said


def test_the_tests_of_other_cells_exist() -> None:
    for test in ELSEWHERE.values():
        module, _, name = test.partition(".")
        assert f"def {name}(" in (Path(__file__).parent / f"{module}.py").read_text(), test


def test_each_cell_of_the_matrix_is_tested() -> None:
    """The table in docs/doctor.md says `found` where a fault is planted, and nowhere else.

    What any layout can have is planted in one layout of those that the same code reads.
    """
    of_any = {fault.code for fault in FAULTS}
    layouts = {kind.name for kind in HARNESSES}
    rows = {(name, fault.code) for name, fault in PAIRS}
    of_engines = {(layout, one.code) for one in ENGINE_FAULTS for layout in one.layouts}
    mends = {(name, one.code) for one in ENGINE_FAULTS for name in one.layouts if not one.stays}
    mends |= MENDED
    planted = {(layout, code) for code, shown in ELSEWHERE for layout in shown}
    planted |= rows | of_engines
    said = {
        (layout, code)
        for layout, backend in BACKENDS.items()
        for code in CODES
        if layout in KINDS or (layout in layouts and code not in of_any)
        if not OCCURRENCE.why_not(code, layout, backend)
    }
    assert said == planted, sorted(said ^ planted)
    mended = {
        (name, code)
        for name, code in said
        if OCCURRENCE.mended_by(code, name, BACKENDS[name]) == OCCURRENCE.STATEMENT
    }
    # The others are mended below.
    assert mended - mends <= rows
    assert mends <= mended


LAYOUTS = [pytest.param(name, marks=MARKS.get(name, pytest.mark.engines)) for name in KINDS]


@pytest.mark.in_ci("sqlite]", "postgres]")
@pytest.mark.parametrize("damaged", LAYOUTS, indirect=True, scope="module")
def test_each_fix_mends_its_finding(damaged: DamagedStore) -> None:
    """What is printed as a fix is run, and what is printed to see more; and the table is right."""
    layout = damaged.harness.name
    mended: set[str] = set()
    for answer, depth in ((damaged.deep, ("--deep",)), (damaged.quick, ())):
        found = answer["findings"]
        for look in {one["look"] for one in found if one["look"]}:
            ckpt(*shlex.split(look)[1:]).ends_cleanly(0, 1, 7)
        for thread_id in dict.fromkeys(one["thread_id"] for one in found if one["fix"]):
            places = {place_of(one) for one in found if one["thread_id"] == thread_id}
            mended |= mend(damaged, thread_id, places, depth)
    planted = {one.code for name, one in PAIRS if name == layout and not one.types}
    promised = {code for code in CODES if OCCURRENCE.mended_by(code, layout, BACKENDS[layout])}
    assert promised & planted <= mended <= promised, mended ^ promised


def mend(
    damaged: DamagedStore, thread_id: str, places: set[Where], depth: tuple[str, ...]
) -> set[str]:
    """Run each fix in a thread, until none is left. Return the codes of what was mended."""
    words = ("-s", damaged.harness.url, "doctor", thread_id, "--grace", "0s", "-o", "json", *depth)
    mended: set[str] = set()
    here = asked(*words)
    while fixes := [one for one in here.values() if one["fix"] and place_of(one) in places]:
        (one, *_) = fixes
        told = run_fix(damaged.harness, one["fix"])
        before, here = here, asked(*words)
        assert place_of(one) not in here, (one["fix"], told)
        new = [here[at] for at in here.keys() - before.keys() if here[at]["severity"] == "error"]
        assert not new, one["fix"]
        mended.add(one["code"])
    return mended


Where = tuple[str | None, ...]


def asked(*words: str) -> dict[Where, Any]:
    """Ask the doctor about a thread. Return the findings by their places."""
    answer = ckpt(*words)
    return {place_of(one): one for one in json.loads(answer.out or '{"findings": []}')["findings"]}


def place_of(finding: Any) -> Where:
    keys = ("code", "thread_id", "checkpoint_ns", "checkpoint_id", "channel", "task_id")
    return tuple(finding[key] for key in keys)


@pytest.mark.engines
def test_branches_that_share_values(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """The saver counts versions in each branch, so LangGraph's own time travel plants this."""
    with empty_store(PlainRedisSaverHarness, request, tmp_path) as harness:
        fill(harness, frozenset({"fork-chat"}))
        steps = {step for thread, step, _ in harness.known_mismatches if thread == "fork-chat"}
        with harness.saver() as saver:
            of_step = {
                one.checkpoint["id"]: one.metadata["step"]
                for one in saver.list({"configurable": {"thread_id": "fork-chat"}})
            }
        words = ("-s", harness.url, "doctor", "--deep", "--grace", "0s", "-o", "json")
        found = ckpt(*words).json["findings"]
        assert {one["code"] for one in found} == {"branches-share-value"}
        assert {one["channel"] for one in found} == {"messages"}
        assert {of_step[one["checkpoint_id"]] for one in found} <= steps


EVERY_KIND = {kind.name: kind for kind in HARNESSES}
WITHOUT_SCHEMA = {"mongodb", "mongodb-js", "kaflow"}
OF_ENGINES: dict[str, Any] = MARKS | {"supabase": pytest.mark.nightly}
"""The tables of Supabase are PostgreSQL's."""


@pytest.mark.parametrize(
    ("layout", "fault"),
    [
        pytest.param(
            layout,
            fault,
            id=f"{layout}: {fault.code}, {fault.says}",
            marks=OF_ENGINES.get(layout, pytest.mark.engines),
        )
        for fault in ENGINE_FAULTS
        for layout in fault.layouts
    ],
)
def test_a_fault_of_an_engine_is_found_and_mended(
    layout: str,
    fault: EngineFault,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with empty_store(EVERY_KIND[layout], request, tmp_path) as harness:
        fill(harness, frozenset({CHAT}))
        assert ckpt("-s", harness.url, "doctor", "-o", "json").json["findings"] == []
        monkeypatch.setattr(health, "LARGE", LARGE)
        with fault.plant(harness) as words:
            found, others = _faults(words, fault.code, some=True)
            for fix in dict.fromkeys(one["fix"] for one in found if one["fix"]):
                run_fix(harness, fix)
            # A private copy of a file that was left has nothing to mend any more.
            again, _ = _faults(
                [one for one in words if one != "--copy"], fault.code, some=fault.stays
            )
        assert {one["thread_id"] for one in found} == {fault.thread}
        assert all(fault.says in one["detail"] for one in found), found
        assert others <= fault.follows
        assert bool(again) == fault.stays
        if fault.code in {"index-missing", "schema-old"} and layout not in WITHOUT_SCHEMA:
            with fault.plant(harness):
                # What keeps the saver from saving is an error.
                severity = "warning" if _can_save(harness) else "error"
            assert {one["severity"] for one in found} == {severity}


def _faults(words: list[str], code: str, *, some: bool) -> tuple[list[Any], set[str]]:
    """Return the findings of a code and the other codes, once there are `some` or none.

    Some servers report free space after a moment.
    """
    for _ in range(100):
        every = ckpt(*words, "doctor", "-o", "json").json["findings"]
        found = [one for one in every if one["code"] == code]
        if bool(found) == some:
            break
        sleep(0.1)
    return found, {one["code"] for one in every} - {code}


def _can_save(harness: Harness) -> bool:
    try:
        fill(harness, frozenset({"linear"}))
    except (psycopg.Error, pymysql.Error, sqlite3.Error):
        return False
    return True


@pytest.fixture(scope="module")
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SqliteHarness]:
    with empty_store(SqliteHarness, request, tmp_path_factory.mktemp("fixes")) as harness:
        fill(harness, frozenset({CHAT, WAITING}))
        yield harness


def fixes(
    store: SqliteHarness, thread_id: str, *more: str, now: datetime | None = None
) -> dict[str, Any]:
    """Return the fix of each code that is found in a thread, None for those without one.

    Without `now`, at a time when no agent is about to use what the tests stored.
    """
    now = now or datetime.now(UTC) + timedelta(minutes=10)
    words = ("-s", store.url, "doctor", thread_id, "--grace", "0s", "-o", "json", *more)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "now", now)
        found = ckpt(*words).json["findings"]
    assert all(one["look"] for one in found)
    return {one["code"]: one["fix"] for one in found}


def copy(store: SqliteHarness, thread: str, name: str) -> tuple[SqlitePlanter, list[Place]]:
    rows = SqlitePlanter(store)
    store.copy(thread, name)
    return rows, rows.places(name)


def test_a_fix_never_only_shows_something() -> None:
    for code in CODES.values():
        assert code.fix.split(" ")[0] in {"", "repair", "rollback", "gc"}, code
        assert "--dry-run" not in code.fix


def without_result(found: list[Any]) -> list[Any]:
    """Remove the first result of a tool."""
    first = min(n for n, one in enumerate(found) if kind_of(one) == "tool")
    return found[:first] + found[first + 1 :]


def test_a_head_of_tomorrow_gets_no_copy(store: SqliteHarness) -> None:
    rows, (head, *_) = copy(store, CHAT, "tomorrow")
    rows.set_value(head, "messages", without_result(rows.value(head, "messages")))
    assert fixes(store, "tomorrow")["tool-call-unanswered"] is not None
    rows.put(head, id_at(2 * 24 * 3600), "loop")
    assert fixes(store, "tomorrow") == {"clock-ahead": None, "tool-call-unanswered": None}


def test_a_call_that_waits_for_an_answer_is_left_alone(store: SqliteHarness) -> None:
    """The question concerns another call; a copy of the head would ask it again."""

    def ask(_: MessagesState) -> Any:
        return {"messages": [("ai", interrupt("sure?"))]}

    calling = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "one"}])
    history = [HumanMessage("hello"), calling, HumanMessage("never mind"), HumanMessage("go on")]
    with store.saver() as saver:
        builder: Any = StateGraph(MessagesState)
        graph = builder.add_node(ask).add_edge(START, "ask").compile(saver)
        config: Any = {"configurable": {"thread_id": "asking"}}
        orphaned = ToolMessage("found", tool_call_id="nobody")
        graph.invoke({"messages": [*history, orphaned, HumanMessage("well")]}, config)
        found = fixes(store, "asking")
        assert found
        assert set(found.values()) == {None}
        ckpt("-s", store.url, "repair", "messages", "asking", "--yes", code=5)
        graph.invoke(Command(resume="yes"), config)
        assert all(fixes(store, "asking").values())


def test_a_fresh_answer_may_still_be_used(store: SqliteHarness) -> None:
    rows, (head, *_) = copy(store, WAITING, "fresh")
    young = rows.put(head, id_after(head.checkpoint_id), "loop")
    rows.put_writes(young, [("__resume__", "an answer")], NULL_TASK_ID)
    soon = time_of(young.checkpoint_id) + timedelta(seconds=20)
    assert fixes(store, "fresh", now=soon)["resume-stale"] is None
    assert fixes(store, "fresh", now=soon + timedelta(hours=1))["resume-stale"] is not None


def test_writes_of_a_subgraph_without_their_checkpoint_are_garbage(store: SqliteHarness) -> None:
    rows, (head, *_) = copy(store, CHAT, "inside")
    lost = replace(head, checkpoint_ns="child:1", checkpoint_id=id_at(-3600))
    rows.put_writes(lost, [("log", "x")], "a task")
    assert fixes(store, "inside")["write-orphaned"] is not None


def test_a_rollback_needs_a_sound_checkpoint(store: SqliteHarness) -> None:
    rows, (head, parent, *_) = copy(store, CHAT, "broken")
    rows.spoil_body(head)
    assert fixes(store, "broken")["body-unreadable"] is not None
    # The rows of the head stay, and a deep check reads them again.
    assert fixes(store, "broken", "--deep")["body-unreadable"] is None
    rows.spoil_body(parent)
    assert fixes(store, "broken")["body-unreadable"] is None


def test_a_rollback_goes_to_the_last_checkpoint_of_one_line(store: SqliteHarness) -> None:
    rows, (head, *_) = copy(store, CHAT, "behind")
    child = rows.put_behind(head, id_before(head.checkpoint_id))
    last = rows.put_behind(child, id_before(child.checkpoint_id))
    assert last.checkpoint_id in fixes(store, "behind")["head-not-newest"]
    rows.put_behind(head, id_before(last.checkpoint_id))
    assert fixes(store, "behind")["head-not-newest"] is None


def test_a_key_is_not_created_over_rows_that_are_stored_twice(tmp_path: Path) -> None:
    path = tmp_path / "keyless.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.setup()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("DROP TABLE writes")
        file.execute(
            "CREATE TABLE writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel,"
            " type, value)"
        )
        row = ("t", "", "1", "task", 0, "a", "msgpack", b"\xc0")
        file.execute("INSERT INTO writes VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    assert only(path).fix.startswith("CREATE UNIQUE INDEX")
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("INSERT INTO writes VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    assert only(path).fix == ""
    assert "stored twice" in only(path).detail


def test_the_options_of_a_check_are_those_of_the_fix(store: SqliteHarness, tmp_path: Path) -> None:
    rows, (head, *_) = copy(store, CHAT, "keyed")
    rows.set_value(head, "messages", without_result(rows.value(head, "messages")))
    key = tmp_path / "the key"
    key.write_bytes(b"0" * 16)
    key.chmod(0o600)
    found = fixes(store, "keyed", "--aes-key-file", str(key), "--reducer", "items=append")
    fix = found["tool-call-unanswered"]
    assert f"--aes-key-file '{key}' --reducer items=append repair messages keyed" in fix


MORNING = datetime(2026, 4, 7, 10, tzinfo=UTC)
FIRST, SECOND, THIRD, LOST = (
    make_id(ticks_at(MORNING + timedelta(seconds=n)), n, 7) for n in (0, 2, 4, 1)
)
SOUND = {"whole", "twice", "tidy", "case"}
SUSPECTING = [
    *("sqlite", "postgres", "mysql", "three-table", "mongodb", "kaflow", "redis", "redis-hash"),
    *("redis-plain", "valkey", "valkey-agentcore", "agentcore", "dynamodb", "objectstorage"),
    *("cosmosdb", "firestore", "supabase", "kagent", "langgraph-dev"),
]
BY_STORING = {"three-table", "kaflow", "redis-plain", "valkey", "valkey-agentcore"}
"""The layouts whose head is what was stored last."""
WITHOUT_HEAD = {"kaflow", "three-table", "valkey-agentcore"}
"""The layouts in which writes alone name no thread."""
READ_WHOLE = {"kaflow", "redis-plain", "agentcore", "objectstorage", "cosmosdb", "firestore"}
"""The layouts of which any thread may be suspect."""


def put(saver: Any, thread_id: str, own: str, parent: str | None) -> None:
    config = {"thread_id": thread_id, "checkpoint_ns": ""}
    config |= {"checkpoint_id": parent} if parent is not None else {}
    metadata = {"source": "loop", "step": 1, "parents": {}}
    saver.put({"configurable": config}, {**empty_checkpoint(), "id": own}, metadata, {})


def write(saver: Any, thread_id: str, checkpoint_id: str) -> None:
    config = {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": checkpoint_id}
    saver.put_writes({"configurable": config}, [("plan", "value")], "task")


def fill_by_saver(saver: Any, harness: Harness) -> dict[str, set[str]]:
    """Fill a store, and return the codes that are to be found, by thread."""
    for thread_id in (*SOUND, "childless", "orphaned"):
        put(saver, thread_id, FIRST, None)
        put(saver, thread_id, SECOND, FIRST)
        write(saver, thread_id, SECOND)
    put(saver, "twice", THIRD, FIRST)
    put(saver, "CASE", THIRD, SECOND)  # The parent is stored for another thread.
    put(saver, "childless", THIRD, LOST)
    found = {"CASE": {"parent-missing"}, "childless": {"parent-missing"}}
    only = "it's only: writes"
    only = only if harness.accepts_thread_id(only) else "only-writes"
    write(saver, "orphaned", LOST)
    write(saver, only, LOST)
    if harness.has_writes and not harness.values_only:
        found["orphaned"] = {"write-orphaned"}
        if harness.name not in WITHOUT_HEAD:
            found[only] = {"write-orphaned"}
    if not harness.values_only:
        put(saver, "late", SECOND, None)
        put(saver, "late", FIRST, SECOND)
        if harness.name not in BY_STORING:
            found["late"] = {"head-not-newest", "id-not-increasing"}
    return found


@pytest.mark.parametrize("name", first_now(SUSPECTING))
def test_only_threads_with_a_fault_are_suspect(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with empty_store(EVERY_KIND[name], request, tmp_path) as harness:
        with harness.saver() as saver:
            expected = fill_by_saver(saver, harness)
        with open_store(harness.url) as store:
            suspects = {*store.suspect_threads()}
        assert suspects >= expected.keys()
        assert name in READ_WHOLE or suspects.isdisjoint(SOUND)
        told: dict[str, set[str]] = {}
        for one in findings(harness.url, "--grace", "0s"):
            told.setdefault(one["thread_id"], set()).add(one["code"])
        assert told == expected
