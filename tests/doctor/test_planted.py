"""Each planted fault is found, the finding names exactly the row, and nothing else is found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ckpt_backends.discovery import bundled
from ckpt_backends.model import Capability
from ckpt_backends.testing.harness import Harness
from ckpt_cli.core.doctor.codes import CODES
from ckpt_cli.core.doctor.occurrence import why_not
from tests.doctor.faults import FAULTS, THREADS, Named, PlantedFault
from tests.doctor.filling import fill
from tests.doctor.planting import PLANTERS
from tests.doctor.planting.base import Planter
from tests.harness import HARNESSES
from tests.harness.opening import empty_store
from tests.support import ckpt

BACKENDS = {layout: one for one in bundled() for layout in one.layouts}
KINDS = {kind.name: kind for kind in HARNESSES if kind.name in PLANTERS}


@dataclass
class DamagedStore:
    """A store that its official saver filled, with one fault in a thread of its own each."""

    harness: Harness
    planted: dict[str, Named] = field(default_factory=dict)
    """By thread, what the finding must name."""
    quick: Any = None
    deep: Any = None
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
            rows.copy(fault.thread, thread_id)
            store.planted[thread_id] = fault.plant(rows, thread_id)
    return store


def occurs(fault: PlantedFault, layout: str) -> bool:
    """Return whether a fault can be planted in a layout."""
    backend = BACKENDS[layout]
    if why_not(fault.code, backend.layouts[layout], backend):
        return False
    kind = KINDS[layout]
    if fault.thread in kind.skipped_scenarios | kind.failing_scenarios:
        return False
    rows = PLANTERS[layout]
    stored = {
        "spoilt metadata": rows.spoils_metadata and not kind.values_only,
        "spoilt bodies": rows.spoils_bodies,
        "spoilt values": rows.spoils_values,
        "spoilt writes": rows.spoils_writes,
        "history": kind.has_history,
        "writes": kind.has_writes,
        "old values": kind.has_history and not kind.newest_values_only,
        "inner values": Capability.INLINE_VALUES in backend.layouts[layout],
        "bodies": not kind.values_only,
    }
    return all(stored[need] for need in fault.needs)


CELLS = [
    pytest.param(
        name,
        fault,
        id=f"{name}-{thread_of(fault)}",
        marks=() if name == "sqlite" else pytest.mark.engines,
    )
    for name in KINDS
    for fault in FAULTS
    if occurs(fault, name)
]


@pytest.fixture(scope="module")
def damaged(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DamagedStore]:
    """A store of a layout with all faults, and what the doctor says of it."""
    kind = KINDS[request.param]
    folder = tmp_path_factory.mktemp("damaged")
    with empty_store(kind, request, folder) as harness:
        fill(harness, THREADS)
        store = plant_all(harness)
        words = ("-s", harness.url, "doctor", "--grace", "0s", "-o", "json")
        store.quick = ckpt(*words)
        store.deep = ckpt(*words, "--deep")
        yield store


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "planted" in metafunc.fixturenames:
        metafunc.parametrize(("damaged", "planted"), CELLS, indirect=["damaged"], scope="module")


def test_a_planted_fault_is_found(damaged: DamagedStore, planted: PlantedFault) -> None:
    named = damaged.planted[thread_of(planted)]
    if not planted.deep:
        check(damaged.quick.json, planted, named)
    place = named.in_depth or named.place
    check(damaged.deep.json, planted, replace(named, place=place))


def check(answer: Any, planted: PlantedFault, named: Named) -> None:
    """Check the findings in the thread of a fault."""
    found = [one for one in answer["findings"] if one["thread_id"] == named.place.thread_id]
    said = [f"{one['code']} {one['channel']}: {one['detail']}" for one in found]
    own = [one for one in found if one["code"] == planted.code and one["channel"] == named.channel]
    assert len(own) == 1, said
    (one,) = own
    assert one["severity"] == (named.level or CODES[planted.code].severity)
    place = named.place
    assert one["checkpoint_ns"] == place.checkpoint_ns
    assert one["checkpoint_id"] == (place.checkpoint_id or None)
    if named.task_id is not None:
        assert one["task_id"] == named.task_id
    others = {other["code"] for other in found if other is not one}
    assert others <= planted.follows, said


def test_each_cell_of_the_matrix_is_tested() -> None:
    """The table in docs/doctor.md says `found` where a fault is planted, and nowhere else."""
    planted = {(cell.values[0], cell.values[1].code) for cell in CELLS}
    said = {
        (layout, code)
        for layout, backend in BACKENDS.items()
        if layout in KINDS
        for code in CODES
        if not why_not(code, backend.layouts[layout], backend)
    }
    assert said == planted, sorted(said ^ planted)
