"""The benchmark can be started, and what it declares fits together. Nothing is measured here."""

from __future__ import annotations

import pytest

from tests.bench.__main__ import main
from tests.bench.makers import MAKERS
from tests.bench.report import BEGIN, END, inserted
from tests.bench.subjects.every import SUBJECTS
from tests.support import ROOT

_EVERY = [(subject, one) for subject in SUBJECTS for one in subject.measurements]


def test_the_subjects_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [subject.name for subject in SUBJECTS]
    assert len(set(listed)) == len(listed)


def test_each_store_is_made_by_somebody_and_each_is_measured() -> None:
    assert {one.store for _, one in _EVERY} == set(MAKERS)


def test_each_line_of_the_table_can_be_told_from_the_others() -> None:
    lines = [(subject.name, one.store, one.what) for subject, one in _EVERY]
    assert len(set(lines)) == len(lines)
    for _, one in _EVERY:
        names = [other.name for other in one.beside]
        assert len(set(names)) == len(names), one.what


def test_the_document_has_a_place_for_the_tables() -> None:
    text = (ROOT / "docs" / "performance.md").read_text("utf-8")
    before, _, after = text.partition(BEGIN)
    assert inserted(text, "tables") == f"{before}{BEGIN}\ntables\n{END}{after.partition(END)[2]}"
    assert inserted("", "tables") == "tables"
