"""Fills stores by their official savers, and asks the official library what it reads from them."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.testing.scenarios.reading import read_truth
from ckpt_backends.testing.scenarios.running import Scenario, ScenarioRun

FEW_SCENARIOS = frozenset(
    {"linear", "chat", "subgraph", "interrupt-nested", "delta-rarely", "two\nlines"}
)
"""Scenarios that represent the others, where all of them take too long."""


@dataclass(frozen=True)
class Fill:
    """How a store is filled."""

    kind: type[Harness]
    only: frozenset[str] | None = None
    """The scenarios to run; None for all."""
    third: int | None = None
    """The third of the threads, 0 to 2, on which tests of each thread run; None for all."""

    @property
    def name(self) -> str:
        return self.kind.name + (f" ({len(self.only)})" if self.only is not None else "")


@dataclass(frozen=True)
class FilledStore:
    """A store with one thread per scenario, and the truth in the form of `truth.json`."""

    harness: Harness
    threads: dict[str, dict[str, Any]]
    """What the official library reads from each thread; see `scenarios.reading`."""
    third: int | None = None
    only: frozenset[str] | None = None
    """The scenarios that were run; None for all."""

    @property
    def sampled_threads(self) -> dict[str, dict[str, Any]]:
        """The threads on which a test runs a command each; other layouts may have the rest."""
        return {
            thread_id: truth
            for at, (thread_id, truth) in enumerate(sorted(self.threads.items()))
            if self.third is None or at % 3 == self.third
        }


def fill_store(harness: Harness, only: frozenset[str] | None = None) -> dict[str, dict[str, Any]]:
    """Run the scenarios on an empty store. Return what the library reads from each thread."""
    if only and "interrupt-nested" in harness.skipped_scenarios:
        only |= {"interrupt-alone"}  # another thread that waits for an answer
    with quiet(), harness.saver() as saver:
        chosen = run_scenarios(harness, saver, only)
        reader = harness.corrected_saver(saver)
        return {
            name: read_truth(scenario.build(reader), scenario, namespaces)
            for name, scenario in chosen.items()
            if (namespaces := _namespaces(reader, name)) or name not in harness.failing_scenarios
        }


def run_scenarios(
    harness: Harness, saver: Any, only: frozenset[str] | None = None, **options: Any
) -> dict[str, Scenario]:
    """Run the scenarios that a saver can store, or some of them. Return them by their threads."""
    chosen = {
        name: one
        for name, one in SCENARIOS.items()
        if not one.is_async
        and name not in harness.skipped_scenarios
        and (only is None or name in only)
    }
    for scenario in chosen.values():
        _run(harness, saver, scenario, {**options, **harness.run_options})
    return chosen


def _run(harness: Harness, saver: Any, scenario: Scenario, options: dict[str, Any]) -> None:
    run = ScenarioRun(scenario.build(saver), scenario.thread_config(), options)
    if scenario.thread_id in harness.failing_scenarios:
        with pytest.raises(harness.scenario_errors):
            scenario.drive(run)
        return
    try:
        scenario.drive(run)
    except Exception as error:
        error.add_note(f"in scenario {scenario.thread_id!r}: see Harness.failing_scenarios")
        raise


def _namespaces(saver: Any, thread_id: str) -> list[str]:
    config = {"configurable": {"thread_id": thread_id}}
    return sorted({row.config["configurable"]["checkpoint_ns"] for row in saver.list(config)})


@contextmanager
def quiet() -> Iterator[None]:
    """Hide the warnings of the library about types that were not registered."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
