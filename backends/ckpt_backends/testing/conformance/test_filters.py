"""Filters choose the same threads as their meaning does, told by what `threads list` prints."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random

import pytest

from ckpt_backends.protocol import Store
from ckpt_backends.testing.conformance.answers import run
from ckpt_backends.testing.conformance.generated_filters import ThreadFacts, generated_filters
from ckpt_backends.testing.filling import FilledStore
from ckpt_cli.core.filters import parse_filter
from ckpt_cli.queries.threads import Selection, selected_threads

FEWEST = 40
"""Number of filters for a store, unless it has more threads."""


@pytest.fixture(scope="module")
def facts(filled: FilledStore) -> Sequence[ThreadFacts]:
    """What commands print of each thread, in the order of the list."""
    rows = run(filled, "threads", "list", "--long", "--all", "-o", "json").json
    times = [datetime.fromisoformat(row["last_at"]) for row in rows if row["last_at"]]
    now = max(times) + timedelta(hours=2)
    found = []
    for row in rows:
        values = run(filled, "show", "-o", "json", "--at", "head", "--", row["thread_id"])
        found.append(ThreadFacts(row, values.json.get("values", {}), now))
    return found


def test_a_filter_chooses_the_threads_for_which_it_holds(
    store: Store, facts: Sequence[ThreadFacts]
) -> None:
    number = max(FEWEST, len(facts))
    for one in generated_filters(facts, Random(4711), number):
        chosen = selected_threads(store, Selection(where=parse_filter(one.text)), facts[0].now)
        wanted = [each.row["thread_id"] for each in facts if one.holds(each)]
        assert [each.thread_id for each in chosen] == wanted, one.text
