"""Each pair of layouts is tested, or refused with its reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.declaration import bundled
from ckpt_backends.errors import Unsupported
from ckpt_backends.transfer.copying import languages_of, refusal, route
from ckpt_backends.transfer.form import Language
from tests.kit.command import FIXTURES, SAMPLE, ckpt
from tests.kit.harness.langgraph_dev import DevHarness
from tests.kit.harness.postgres import ShallowPostgresHarness
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.harness.three_table import ThreeTableHarness
from tests.kit.pairs import JAVASCRIPT_PAIRS, PAIRS, PYTHON, Places

LAYOUTS = [layout for backend in bundled() for layout in backend.layouts]
VARIANTS = {"redis-hash-colon": "redis-hash"}
"""Layouts that differ from another one in the names of keys only."""


def allowed(language: Language) -> set[tuple[str, str]]:
    return {
        (source, target)
        for source in LAYOUTS
        for target in LAYOUTS
        if not refusal(source, target, language)
    }


def test_each_pair_of_python_is_tested() -> None:
    tested = {(one.values[0].source.name, one.values[0].target.name) for one in PAIRS}
    wanted = {(VARIANTS.get(source, source), target) for source, target in allowed(Language.PYTHON)}
    assert wanted == tested


def test_each_pair_of_javascript_is_tested() -> None:
    tested = {(str(one.values[0]), str(one.values[1])) for one in JAVASCRIPT_PAIRS}
    assert allowed(Language.JAVASCRIPT) == tested


def test_each_layout_is_a_source_or_says_why_not() -> None:
    for layout in LAYOUTS:
        known = languages_of(layout) or refusal(layout, "sqlite", Language.PYTHON)
        assert known, layout
        assert layout in PYTHON or layout in VARIANTS or "js" in layout.split("-")


@pytest.mark.parametrize("language", list(Language))
def test_each_refused_pair_has_a_reason(language: Language) -> None:
    for source in LAYOUTS:
        for target in LAYOUTS:
            reason = refusal(source, target, language)
            if reason:
                with pytest.raises(Unsupported, match="cannot copy from") as raised:
                    route(source, target, language)
                assert reason in raised.value.message


def check_refused(source: str | Path, target: str) -> None:
    answer = ckpt("-s", source, "copy", "--all", "--to", target, "--yes", "-o", "json")
    assert answer.code == 4
    error: dict[str, Any] = json.loads(answer.err)
    assert error["error"] == "unsupported"
    assert "cannot copy from" in error["message"]


def test_a_store_without_metadata_is_refused(places: Places) -> None:
    with places(ThreeTableHarness) as source, places(SqliteHarness) as target:
        source.add("a thread")
        target.kept_saver  # noqa: B018  (makes the store)
        check_refused(source.url, target.url)


@pytest.mark.engines
def test_a_store_without_history_is_no_target(places: Places) -> None:
    with places(ShallowPostgresHarness) as target:
        target.kept_saver  # noqa: B018
        check_refused(SAMPLE, target.url)


def test_threads_of_javascript_are_refused_by_a_store_of_python(places: Places) -> None:
    with places(DevHarness) as target:
        target.add("a thread")
        check_refused(FIXTURES / "js-1.7.3" / "store.db", target.url)
