"""The lists of what waits for a later tier name tests, and variants of tests, that exist."""

import re
import subprocess
import sys

import pytest

from tests.kit.command import ROOT
from tests.kit.harness import tiers

SUITE = "backends/ckpt_backends/testing/conformance"


def test_the_tests_of_tiers_exist() -> None:
    source = "".join(path.read_text() for path in (ROOT / SUITE).glob("test_*.py"))
    defined = set(re.findall(r"^def (test_\w+)\(", source, re.MULTILINE))
    listed = [
        *(tiers.OF_EACH_LAYOUT, tiers.OF_SLOW_SERVERS, tiers.PROVED_ON_SQLITE, tiers.OF_A_LAYOUT),
        *(tiers.ASKED_THROUGH_STORE, tiers.OF_FEW_VALUES),
        tiers.IN_CI.keys(),
    ]
    assert set().union(*listed) <= defined


@pytest.mark.parametrize("number", [0, 1, 5, 6, 14, 15, 40, 500])
def test_each_variant_has_its_turn_within_two_weeks(number: int) -> None:
    names = {f"layout {one}" for one in range(number)}
    nights = [tiers.turn(names, 14, night) for night in range(740_000, 740_014)]
    assert set().union(*nights) == names
    assert tiers.turn(names, 1) == names
    if number > tiers.MANY:
        assert all(0 < len(one) <= -(-number // 14) for one in nights)


@pytest.mark.engines
def test_a_listed_variant_exists() -> None:
    """What stays in the run is found by the start of its name, which a rename would change."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:xdist", "--collect-only", "-q", "-m", "", SUITE],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    unused = [
        (name, variant)
        for name, variants in tiers.IN_CI.items()
        for variant in variants.split(", ")
        if f"::{name}[{variant}" not in done.stdout
    ]
    assert unused == []
