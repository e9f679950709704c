"""Sections and tables of a report."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from xml.etree.ElementTree import Element

from ckpt_cli.render.markup import add


def add_section(page: Element, name: str, title: str) -> Element:
    """Add a section with a title, which also names the section for screen readers."""
    section = add(page, "section", id=name, aria_labelledby=f"{name}-title")
    add(section, "h2", title, id=f"{name}-title")
    return section


def add_table(
    section: Element, label: str, headers: Sequence[str], numbers: Collection[str] = ()
) -> Element:
    """Add a table and return its body; `numbers` are the columns that are set to the right."""
    # A wide table scrolls by itself, so that the page does not.
    box = add(section, "div", class_="scrolls", tabindex=0, role="region", aria_label=label)
    table = add(box, "table")
    row = add(add(table, "thead"), "tr")
    for one in headers:
        add(row, "th", one, scope="col", **({"class_": "number"} if one in numbers else {}))
    return add(table, "tbody")
