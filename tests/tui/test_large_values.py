"""Values too large for a screen: what is shown of them, and what is said of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.testing.official import config_of
from ckpt_backends.testing.scenarios import graphs
from ckpt_backends.testing.screen import Seat, sit


def stored(path: Path, *updates: Mapping[str, object]) -> Path:
    """A store with one thread of some updates; items are added to those before."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        for one in updates:
            graphs.linear(saver).update_state(config_of("long"), one, as_node="read")
    return path


def test_a_list_of_3000_items_shows_its_first_ones_and_unfolds_its_last(tmp_path: Path) -> None:
    items = [{"place": f"stop {n}", "nights": n} for n in range(3000)]
    store = stored(tmp_path / "agent.db", {"items": items})

    async def look(seat: Seat) -> None:
        await seat.press("z", "1")
        assert seat.sees("place: stop 0", "place: stop 5")
        rows = seat.main.inspector.rows
        await seat.press("G")
        assert rows.lines[-1].text.strip() == "▸ … items 2,900–2,999 of 3,000"
        assert len(rows.lines) < 200
        await seat.press("right", "G")
        assert seat.sees("2999: {place: stop 2999, nights: 2999}")

    sit(store, look)
