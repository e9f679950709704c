"""Stores of LangGraph 1.2.0 to 1.2.12 read as these releases and the newest one read them.

No fixture is kept of them: each writes its store here. Environments are made with pip in a cache
folder; `-m release` runs these.
"""

import json
import os
import subprocess
from ast import literal_eval
from importlib.metadata import version
from pathlib import Path

import pytest

from ckpt_backends.testing.conformance.comparison import Known
from tests.kit.command import FIXTURES
from tests.kit.eras import check_store
from tests.kit.releases import MINOR_RELEASES, environment

TORN = " is torn, run again"

pytestmark = pytest.mark.release


@pytest.mark.parametrize("release", MINOR_RELEASES)
def test_a_store_of_a_release_reads_as_it_read_it(release: str, tmp_path: Path) -> None:
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
    truth = json.loads((tmp_path / "truth.json").read_text("utf-8"))
    for name in torn:
        del truth["threads"][name]
    assert len(truth["threads"]) > 90
    check_store(str(tmp_path / "store.db"), truth, Known())
