"""Fills stores by their official savers, without asking what these read."""

from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.testing.scenarios.running import ScenarioRun


def fill(harness: Harness, threads: frozenset[str]) -> None:
    """Run some scenarios on the store."""
    chosen = threads - harness.skipped_scenarios - harness.failing_scenarios
    if harness.recording is not None:
        harness.restore_recording(chosen)
        return
    with quiet(), harness.saver() as saver:
        for name, one in SCENARIOS.items():
            if name in chosen:
                # Without "sync", a task may store its writes before the checkpoint is stored. The
                # doctor says of RedisSaver, rightly, that it then does not read them.
                options = {"durability": "sync", **harness.run_options}
                one.drive(ScenarioRun(one.build(saver), one.thread_config(), options))
