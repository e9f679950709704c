"""Which layouts a run tests: one of each engine by default, the others with a marker. A plug-in.

Of a test with many nightly variants, a night runs a fourteenth, so that each has its turn within
two weeks. `CKPT_TEST_NIGHTS=1` runs all of them; of a test that is named with `::`, all run, too.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ckpt_backends.testing.chance import CHANCE
from ckpt_backends.testing.filling import FEW_SCENARIOS, Fill
from ckpt_backends.testing.harness import Harness, TestServer
from ckpt_backends.testing.trials import PLAIN, UNDONE, can_travel
from tests.kit.harness import HARNESSES
from tests.kit.opening import own_server

FAST = frozenset(
    {"sqlite", "postgres", "mysql", "langgraph-dev", "mongodb", "redis", "three-table", "dynamodb"}
    | {"langgraph-dev-js"}
)
"""One layout of each engine, and the one that is only read: they run without a marker."""
DISTINCT = frozenset({"sqlite", "postgres-shallow"})
"""One layout of each kind of answer; commands run on the others with `-m nightly` only."""
VALUED = frozenset({"postgres", "mysql", "redis"})
"""The layouts whose savers store the types of values in different ways."""
VALUES = FEW_SCENARIOS | PLAIN | {"delta-often", "durability-exit", "error", "fork-chat"}
"""The scenarios that fill these, PostgreSQL with `-m engines` and the others with `-m nightly`:
each type of value, odd ids, and threads that are stored in another form. All scenarios fill SQLite
by default, and the others with `-m nightly`."""
ASKED_FOR = FEW_SCENARIOS | {
    *("fanout-join", "fanout-send", "reducers", "conditional", "loop", "command-goto", "error"),
    *("interrupt-answered", "delta-often", "fork-chat", "fork-update", "chat-edited", "update-mid"),
    *("root-messages", "delta-fork-often", "with-metadata", "durability-exit", "zoo-text"),
    *(one for one in PLAIN if not one.startswith("zoo-")),
}
"""The scenarios that the tests of commands name, on the shallow layout of `DISTINCT` in CI."""
FEWEST = dict.fromkeys(
    ("dynamodb", "objectstorage-s3", "cosmosdb", "agentcore"),
    FEW_SCENARIOS - {"delta-rarely", "two\nlines"},
)
"""By layout, fewer scenarios by default: the server takes 10 ms of CPU time for each request."""
SLOWEST = {"objectstorage-s3": ASKED_FOR}
"""By layout, the scenarios in place of all, which would take minutes."""
OF_EACH_LAYOUT = frozenset(
    {
        "test_delete_takes_a_thread_and_no_neighbour",
        "test_what_was_pruned_comes_back_from_its_archive",
        "test_an_archived_thread_comes_back_row_for_row",
        "test_an_archive_brings_no_row_of_another_thread",
        "test_copy_is_a_thread_of_its_own",
    }
)
"""The tests of changes that `-m engines` runs on every layout, since rows and keys differ."""
OF_SLOW_SERVERS = OF_EACH_LAYOUT | {
    "test_plan_and_report_equal_the_engines_counts",
    "test_cells_of_other_types_end_with_a_clear_error",
    "test_an_erasure_tells_what_was_done_and_what_remains",
    "test_a_thread_comes_back_from_a_copy",
}
"""The tests of changes that `-m engines` runs on the layouts of `FEWEST`."""
TWINS = frozenset({"objectstorage-s3", "three-table-latest", "mysql-shallow", "redis-js-shallow"})
"""The layouts that the code of another one reads and changes."""
OF_TWINS = frozenset(
    {
        "test_every_thread_reads_as_the_library_reads_it",
        "test_nothing_is_found_in_what_the_saver_wrote",
        "test_threads_gives_every_thread_once_newest_first",
        "test_writes_come_in_the_order_of_the_protocol",
        "test_delete_takes_a_thread_and_no_neighbour",
        "test_what_was_pruned_comes_back_from_its_archive",
    }
)
"""The tests of the suite that `-m engines` runs on them."""
PROVED_ON_SQLITE = frozenset(
    {
        "test_each_command_does_what_its_cell_says",
        "test_as_of_a_time_a_thread_is_what_the_library_had",
        "test_plan_and_report_equal_the_engines_counts",
        "test_cells_of_other_types_end_with_a_clear_error",
        "test_an_erasure_tells_what_was_done_and_what_remains",
        "test_a_change_is_planned_carried_out_read_by_the_library_and_taken_back",
        "test_a_plan_is_not_carried_out_on_a_thread_that_moved",
        "test_an_erased_value_is_in_no_row_and_the_graph_goes_on",
        "test_a_thread_is_encrypted_rekeyed_and_decrypted",
    }
)
"""The tests that take seconds on each engine. By default, they run on SQLite only."""
KILLED = "test_a_killed_change_is_whole_or_nothing_and_the_log_tells_which"
"""It runs on SQLite; on a server, the next run waits for the lock of a killed one."""
OF_A_LAYOUT = {
    "test_the_declaration_is_complete_and_says_what_makes_the_matrix",
    "test_each_command_does_what_its_cell_says",
}
"""The tests of a filled store whose answers depend on the layout alone, not on its threads."""
ASKED_THROUGH_STORE = {
    "test_tables_have_the_rows_of_the_other_answers",
    "test_fewer_columns_are_those_of_all",
    "test_a_query_answers_from_all_threads",
}
"""The tests that read a filled store only through `Store`, nightly on others than SQLite."""
FALSE_ALARMS = "test_nothing_is_found_in_what_the_saver_wrote"
OF_FEW_VALUES = ASKED_THROUGH_STORE | {
    FALSE_ALARMS,
    "test_a_filter_chooses_the_threads_for_which_it_holds",
}
"""The tests of a filled store that show no more with many threads than with six: how each type of
value reads is shown by those of truth and of promises. What the doctor would take for a fault, all
scenarios show."""
_OF_EACH_ENGINE = (
    "sqlite, postgres (6), mysql (, redis (, mongodb (, langgraph-dev, firestore, agentcore"
)
_OF_THREE = "sqlite, postgres], mongodb]"
"""One file, one SQL server and one store of documents: what a command does with any store."""
_OF_EACH_WAY = "sqlite, postgres (6), redis (, mongodb ("
"""The layouts in which moments are chosen by the engine, by ids alone, or by both."""
_CHANGES = ["rollback-", "threads delete-", "edited fork-redis]"]
"""What each engine adds, removes and takes back in a way of its own. What it prunes, copies and
takes from archives, `test_removal.py` shows on each layout."""
_CHANGES += [
    f"{case}-{layout}]"
    for case in (
        *("edited fork", "copy of a thread", "copy of a checkpoint", "erase", "import"),
        *("purge --keep-last", "repair messages", "repair values", "repair writes"),
    )
    for layout in ("sqlite", "postgres", "mongodb")
]
IN_CI = {
    "test_as_of_a_time_a_thread_is_what_the_library_had": _OF_EACH_WAY,
    "test_cells_of_other_types_end_with_a_clear_error": (
        "sqlite, postgres, mysql, redis], mongodb], langgraph-dev], three-table], dynamodb"
    ),
    **dict.fromkeys(
        (
            "test_as_of_a_time_a_thread_has_the_checkpoints_of_then",
            "test_nothing_that_follows_from_writes_contradicts_them",
        ),
        "three-table (",
    ),
    "test_a_secret_is_found_and_not_told": _OF_THREE,
    "test_a_plan_that_was_reviewed_is_carried_out": "sqlite",
    "test_an_archive_brings_no_pickle_unless_allowed": f"{_OF_THREE}, redis], langgraph-",
    "test_the_command_brings_the_archive_as_it_is_or_nothing": _OF_THREE,
    "test_threads_are_listed_filtered_and_looked_into": "sqlite, postgres-shallow, three-table (",
    "test_a_timeline_has_the_states_of_every_checkpoint": _OF_EACH_ENGINE,
    "test_plan_and_report_equal_the_engines_counts": "sqlite, postgres, redis",
    "test_a_filter_chooses_the_threads_for_which_it_holds": (
        "sqlite, postgres (, mongodb (, kaflow, three-table ("
    ),
    "test_each_command_does_what_its_cell_says": f"{_OF_EACH_ENGINE}, three-table (",
    "test_checkpoints_and_writes_of_many_are_as_of_each": (
        "sqlite, postgres (6), postgres-shallow (6), mysql, redis, mongodb, kaflow, "
        "langgraph-dev, three-table, valkey"
    ),
    "test_delete_takes_a_thread_and_no_neighbour": (
        "sqlite, postgres], mysql], redis], mongodb], kaflow, langgraph-dev]"
    ),
    "test_a_change_is_planned_carried_out_read_by_the_library_and_taken_back": ", ".join(_CHANGES),
    "test_two_purges_at_once_share_the_work": "sqlite, postgres, redis",
    "test_a_plan_is_not_carried_out_on_a_thread_that_moved": (
        "erase-, import-, rollback-, threads delete-"
    ),
    "test_a_change_below_the_head_is_undone_and_made_again": "postgres, redis, mysql, valkey-",
    "test_an_undone_change_leaves_every_row_as_it_was": (
        "postgres-subgraph, redis-, mysql-command, mongodb-command, valkey, "
        "langgraph-dev-command, dynamodb"
    ),
}
"""By test of the suite, how the ids of the variants begin that CI runs, divided by `, `: another
engine shows the same fault there. Other tests have the mark `in_ci`."""
TRAVELLING = {"postgres", "mysql", "mongodb", "langgraph-dev", "redis"}
"""One layout of each engine for time travel by default. SQLite has tests of its own."""
COPIED = (
    TRAVELLING
    | {"redis-hash", "redis-plain", "valkey", "dynamodb", "kagent", "objectstorage"}
    | {"cosmosdb", "firestore", "valkey-agentcore", "supabase", "agentcore"}
)
"""The layouts whose time travel is tested."""


def pytest_ckpt_harnesses() -> list[type[Harness]]:
    return HARNESSES


def pytest_ckpt_server(
    harness: type[Harness], request: pytest.FixtureRequest
) -> AbstractContextManager[TestServer | None]:
    return own_server(harness, request)


def pytest_ckpt_filled_stores(
    config: pytest.Config, harnesses: Sequence[type[Harness]], distinct: bool
) -> list[Any]:
    """Return the stores of a test that the run has, with the marks of their tiers."""
    found = []
    for kind in harnesses:
        for only, mark in _tiers(kind, distinct=distinct):
            if mark in {"", "fast"} or is_asked_for(config, mark):
                scenarios = kind.only_scenarios if only is None else only
                fill = Fill(kind, scenarios, HARNESSES.index(kind) % 3)
                marks = [] if mark in {"", "fast"} else [getattr(pytest.mark, mark)]
                found.append(pytest.param(fill, id=fill.name, marks=marks))
    return found


def _tiers(kind: type[Harness], *, distinct: bool) -> Iterator[tuple[frozenset[str] | None, str]]:
    """Yield the scenarios of a layout, each time with the marker of their tier."""
    every = SLOWEST.get(kind.name)
    if kind.name == "sqlite":
        yield None, "fast"
    elif distinct and not kind.values_only:
        if kind.name in DISTINCT:
            yield ASKED_FOR, "engines"
        yield every, "nightly"
    else:
        few = FEWEST.get(kind.name, FEW_SCENARIOS) & (kind.only_scenarios or FEW_SCENARIOS)
        yield few, "fast" if kind.name in FAST else "engines"
        if kind.name in VALUED:
            yield VALUES, "engines" if kind.name == "postgres" else "nightly"
        yield every, "nightly"


def is_asked_for(config: pytest.Config, mark: str) -> bool:
    """Whether the marker expression of the run may select tests with a marker."""
    return re.search(rf"(?<!not )\b{mark}\b", config.getoption("markexpr") or mark) is not None


def pytest_ckpt_empty_stores(harnesses: Sequence[type[Harness]]) -> list[Any]:
    """Return layouts as parameters with the marks of their tiers."""

    def mark_of(kind: type[Harness]) -> Any:
        if kind.recording:
            return pytest.mark.nightly
        return () if kind.name in FAST - FEWEST.keys() else pytest.mark.engines

    return [pytest.param(kind, id=kind.name, marks=mark_of(kind)) for kind in harnesses]


def mark_of(item: pytest.Item) -> str | None:
    """Return the mark of a variant, besides its layout's; None if another one shows as much."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    name, filled = getattr(item, "originalname", item.name), params.get("filled")
    kind = params.get("empty_store") if filled is None else filled.kind
    if kind is None or kind is HARNESSES[0]:
        return ""
    if name == KILLED:
        return "nightly" if params["at_random"] else None
    if filled is not None and _has_no_more(name, filled):
        return None
    if kind.name == "agentcore on snapshots":
        return "nightly"  # `tests/engines` has tests of this form
    if kind.name in TWINS:
        is_elsewhere = name not in OF_TWINS
    elif filled is not None:
        is_elsewhere = name in ASKED_THROUGH_STORE
    elif kind.name in FEWEST:
        is_elsewhere = name not in OF_SLOW_SERVERS
    else:
        is_elsewhere = name not in OF_EACH_LAYOUT and kind.name not in FAST
    if is_elsewhere:
        return "nightly"
    return "engines" if name in PROVED_ON_SQLITE else ""


def _has_no_more(name: str, filled: Fill) -> bool:
    """Return whether the layout was asked the same with other threads."""
    if name in OF_A_LAYOUT:
        return " on " in filled.kind.name or filled.only == VALUES
    is_whole = filled.only in {None, SLOWEST.get(filled.kind.name)}
    return name in OF_FEW_VALUES and (filled.only == VALUES or (is_whole and name != FALSE_ALARMS))


def pytest_ckpt_time_travel(
    harnesses: Sequence[type[Harness]], names: Sequence[str], every: bool
) -> list[Any]:
    """Return parameters of a layout and a scenario, with the marks of their tiers."""
    return [
        pytest.param(
            kind,
            name,
            id=f"{kind.name}-{name}",
            marks=() if every else _mark_of_travel(kind.name, name, names),
        )
        for kind in harnesses
        # The test server of DynamoDB takes minutes for every checkpoint of a thread.
        if kind.name in COPIED and not (every and kind.name in FEWEST)
        for name in names
        if can_travel(kind, name)
    ]


def _mark_of_travel(layout: str, name: str, names: Sequence[str]) -> Any:
    if layout in FEWEST:
        is_chosen = names is UNDONE and name == "command-input"
        return pytest.mark.engines if is_chosen else pytest.mark.nightly
    if name == "subgraph-stateful":
        if layout in {"mongodb", "langgraph-dev"}:
            return pytest.mark.nightly  # takes half a minute there
        return () if layout in TRAVELLING else pytest.mark.engines
    # The caller's own writes are copied with a checkpoint.
    chosen = "command-input" if names is UNDONE else "interrupt-nested"
    is_chosen = name == chosen and (layout in TRAVELLING or names is UNDONE)
    return pytest.mark.engines if is_chosen else pytest.mark.nightly


NIGHTS = int(os.environ.get("CKPT_TEST_NIGHTS") or 14)
"""Over how many nights the variants of a test are dealt that has more than `MANY` of them."""
MANY = 5


def turn(names: Iterable[str], nights: int = NIGHTS, night: int = CHANCE.seed) -> set[str]:
    """Return the names whose turn it is: all of a few, of many other ones each night."""
    mixed = sorted({*names}, key=lambda name: Random(name).random())
    if len(mixed) <= MANY:
        return {*mixed}
    size = -(-len(mixed) // nights)
    parts = [mixed[begin : begin + size] for begin in range(0, len(mixed), size)]
    return {*parts[night % len(parts)]}


def waiting(items: Iterable[Any]) -> tuple[set[str], list[Any]]:
    """Return the filled stores whose turn it is, and the tests that wait for another night."""
    variants: dict[tuple[Path, str], dict[str, list[Any]]] = {}
    stores: dict[str, list[Any]] = {}
    for item in items:
        if not hasattr(item, "callspec") or item.get_closest_marker("nightly") is None:
            continue
        filled = item.callspec.params.get("filled")
        if isinstance(filled, Fill):
            stores.setdefault(filled.name, []).append(item)
        else:
            shared = item.callspec.params.get("damaged", item.name)
            of_test = variants.setdefault((item.path, item.originalname), {})
            of_test.setdefault(shared, []).append(item)
    now = turn(stores)
    later = [item for name, group in stores.items() if name not in now for item in group]
    for of_test in variants.values():
        for name in of_test.keys() - turn(of_test):
            later += of_test[name]
    return now, later
