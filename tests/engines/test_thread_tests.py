"""Threads become tests on engines that store the types of values in other ways."""

from pathlib import Path

import pytest

from ckpt_backends.testing.harness import Harness
from tests.thread_tests.recording import failures, place_of, record_on, write


@pytest.mark.engines
@pytest.mark.parametrize("place", ["postgres", "mysql", "redis", "mongodb"], indirect=True)
def test_written_tests_pass(place: Harness, tmp_path: Path) -> None:
    # The saver of Redis does not give objects of Pydantic back to the graph.
    names = ("loop", "asking", "sending", *(() if place.name == "redis" else ("models", "records")))
    with place.saver() as saver:
        for name in names:
            record_on(saver, name)
    for name in names:
        found = write(place.url, tmp_path / "tests", name, place_of(name))
        assert (found.left_out, failures(found.path)) == ([], {}), name
