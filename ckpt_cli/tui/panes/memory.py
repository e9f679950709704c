"""The pane of the memory screen that lists items."""

from __future__ import annotations

from collections.abc import Sequence

from ckpt_backends.memory.protocol import Item, ItemKey, Namespace
from ckpt_cli.render.text import StyledLine
from ckpt_cli.tui.content.memory import MemoryFilter, parse_memory_filter
from ckpt_cli.tui.panes.filter import FilterPane
from ckpt_cli.tui.panes.row_list import RowList


class MemoryRows(RowList):
    """One line per namespace label and per item; the cursor stops only at items."""

    def __init__(self) -> None:
        super().__init__(id="memory-rows")
        self.listed: Sequence[tuple[Item | Namespace, StyledLine]] = ()

    def count(self) -> int:
        return len(self.listed)

    def line_at(self, index: int, width: int) -> StyledLine:  # noqa: ARG002
        return self.listed[index][1]

    def is_stop(self, index: int) -> bool:
        return index < len(self.listed) and isinstance(self.listed[index][0], Item)

    @property
    def item(self) -> Item | None:
        """The item under the cursor; None if there is none."""
        found = self.listed[self.cursor][0] if self.cursor < len(self.listed) else None
        return found if isinstance(found, Item) else None

    def show_items(
        self, listed: Sequence[tuple[Item | Namespace, StyledLine]], key: ItemKey | None
    ) -> None:
        """Show other items, with the cursor on the item `key`."""
        self.listed = listed
        items = enumerate(one for one, _ in listed)
        found = (at for at, one in items if isinstance(one, Item) and one.key == key)
        self.resize(next(found, self.cursor))


class MemoryPane(FilterPane):
    """All items of a long-term memory, or those that match the filter."""

    rows: MemoryRows

    def __init__(self) -> None:
        hint = "text, glob*, category:goal, confidence:0.8, expired:yes"
        super().__init__(MemoryRows(), hint, id="memories")
        self.wanted = MemoryFilter()

    def narrow(self, text: str) -> None:
        self.wanted = parse_memory_filter(text)
        self.post_message(self.Narrowed())
