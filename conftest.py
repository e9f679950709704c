"""Loads the project's own plug-in for its tests and for the conformance suite."""

import os
import signal
import sys
from pathlib import Path

import pytest

# The tests start hundreds of processes, which take half as long again if each compiles all modules.
# So does this one if it rewrites the assertions of all tests in each run.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# A shell ignores SIGINT in what it starts in the background, and processes inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Start one worker more than cores with `-n auto`: tests wait for servers, for processes and
    for the screen a third of their time.
    """
    return (os.cpu_count() or 1) + 1


def pytest_configure(config: pytest.Config) -> None:
    """Load it, unless another project runs the suite on its own layouts."""
    if config.rootpath == Path(__file__).parent:
        config.pluginmanager.import_plugin("tests.kit.plugin")
