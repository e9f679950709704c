"""Mistakes of a package that runs the conformance suite on its layout are named.

`.ci/run` runs the suite on the layout of `examples/ckpt-duckdb`, which has only `ckpt` installed.
"""

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from ckpt_backends.testing import plugin
from tests.kit.cases import cases
from tests.kit.harness.sqlite import SqliteHarness


@cases(
    "name says",
    ("Nothing", "cannot import the harness 'ckpt_backends.testing.plugin:Nothing'"),
    ("SUITE", "is no subclass of ckpt_backends.testing.harness.Harness"),
    ("", "no layout to test: give --ckpt-harness MODULE:CLASS"),
)
def test_what_is_no_harness(name: str, says: str) -> None:
    named = [f"{plugin.__name__}:{name}"] if name else []
    config: Any = SimpleNamespace(getoption=lambda _: named, getini=lambda _: [])
    with pytest.raises(pytest.UsageError, match=says):
        plugin.pytest_ckpt_harnesses(config)


def test_a_server_that_nobody_starts() -> None:
    class ServerHarness(SqliteHarness):
        server = "toyserver"

    with pytest.raises(pytest.fail.Exception, match="no plug-in starts a server 'toyserver'"):
        plugin.pytest_ckpt_server(ServerHarness)


def test_ckpt_itself_does_not_load_the_suite() -> None:
    program = (
        "import sys, ckpt_cli.run; ckpt_cli.run.run(['stores', 'none.db']);"
        "sys.exit('ckpt_backends.testing' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
