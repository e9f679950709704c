"""The terminal UI on every layout."""

import pytest

from ckpt_backends.testing.conformance.answers import rows
from ckpt_backends.testing.filling import FilledStore
from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.tui.tabs.content import TABS

DISTINCT = True
pytestmark = pytest.mark.filterwarnings("ignore")


def test_threads_are_listed_filtered_and_looked_into(filled: FilledStore) -> None:
    """In one sitting, since it takes seconds to sit down."""
    before = filled.harness.fingerprint()

    async def look(seat: Seat) -> None:
        await _listed_with_what_they_wait_for(seat, filled)
        await _each_tab_of_a_thread_with_subgraphs(seat, filled)
        await _a_question_leads_into_the_namespace_that_asked_it(seat, filled)

    sit(filled.harness.url, look)
    assert filled.harness.fingerprint() == before


async def _listed_with_what_they_wait_for(seat: Seat, filled: FilledStore) -> None:
    listing = seat.main.threads_pane.listing
    assert {one.thread_id for one in listing.threads} == set(filled.threads)
    await seat.press("slash")
    await seat.type("status:interrupted")
    await seat.press("enter")
    shown = {one.thread_id for one in listing.shown}
    asking = {
        name
        for name, truth in filled.threads.items()
        if rows(filled, name)[0]["interrupts"] and truth["waiting_own"]
    }
    assert shown == (asking if filled.harness.has_questions else set())
    await seat.press("escape")
    assert len(listing.shown) == len(listing.threads)


async def _each_tab_of_a_thread_with_subgraphs(seat: Seat, filled: FilledStore) -> None:
    name = "interrupt-nested" if "interrupt-nested" in filled.threads else "interrupt-alone"
    seat.main.go_to(name)
    await seat.rest()
    assert seat.main.tree_pane.view.thread_id == name
    place = seat.main.place
    assert place is not None
    assert place.checkpoint_id == rows(filled, name)[0]["checkpoint_id"]
    for number, tab in enumerate(TABS, 1):
        await seat.press(str(number % 10))
        assert seat.main.inspector.tab == tab
        assert seat.main.inspector.rows.lines, tab
    await seat.press("i")
    assert seat.sees(name if filled.harness.has_questions else "no unanswered questions")
    await seat.press("escape", "d", "escape", "S")
    await seat.type("in")
    await seat.press("enter", "escape")


async def _a_question_leads_into_the_namespace_that_asked_it(
    seat: Seat, filled: FilledStore
) -> None:
    await seat.press("i", "slash")
    await seat.type("interrupt-nested")
    await seat.press("enter")
    if not filled.harness.has_questions:
        assert seat.sees("no unanswered questions")
        return
    await seat.press("enter")
    place = seat.main.place
    assert place is not None
    assert place.checkpoint_ns.count("|") == 1
    assert place.thread_id.startswith("interrupt-nested")
    assert seat.main.tree_pane.view.ns == place.checkpoint_ns
    await seat.press("escape")
    assert seat.main.tree_pane.view.ns is None
