"""The timeline of a report, as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any
from xml.etree.ElementTree import Element

from ckpt_cli.render.markup import add
from ckpt_cli.render.report.checkpoints import local_time
from ckpt_cli.render.report.tables import add_section, add_table
from ckpt_cli.render.status import counted_names

MOST_STEPS = 200
_KINDS = {"human": "waited for a person", "idle": "nothing ran"}


def add_timeline(page: Element, timeline: Mapping[str, Any], zone: tzinfo) -> int:
    """Add the newest steps of `ckpt timeline`; return how many older ones are left out."""
    section = add_section(page, "timeline", "Timeline")
    steps = timeline["steps"]
    if not steps:
        add(section, "p", "The store holds no times of this thread.", class_="dim")
        return 0
    waited = timeline["waiting_seconds"]
    facts = f"{seconds_text(timeline['seconds'])} from the first checkpoint to the last"
    facts += f", of which {seconds_text(waited)} waiting for people" if waited else ""
    add(section, "p", f"{facts}. Times are those at which checkpoints were saved.", class_="dim")
    shown = steps[-MOST_STEPS:]
    _add_steps(section, shown, zone)
    if timeline["nodes"]:
        add(section, "h3", "By node")
        _add_nodes(section, timeline["nodes"])
    return len(steps) - len(shown)


def seconds_text(seconds: float | None) -> str:
    """Return a duration: `0.25 s`, `42 s`, `3 m 05 s`, `2 h 10 m`, `3 d 4 h`; `?` if unknown."""
    if seconds is None:
        return "?"
    if seconds < 10:
        return f"{seconds:.2f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02} m"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def _add_steps(section: Element, steps: Sequence[Mapping[str, Any]], zone: tzinfo) -> None:
    longest = max((one["seconds"] or 0 for one in steps if one["kind"] == "run"), default=0)
    table = add_table(section, ("Step", "Nodes", "Began", "Duration", ""), numbers=("Duration",))
    for one in steps:
        kind, seconds = one["kind"], one["seconds"]
        row = add(table, "tr")
        add(row, "td", "" if one["step"] is None else str(one["step"]))
        add(row, "td", _KINDS.get(kind) or counted_names(one["nodes"] or ()) or "?")
        add(row, "td", _clock(one["started_at"], zone))
        add(row, "td", seconds_text(seconds), class_="number")
        _add_bar(add(row, "td"), kind, (seconds or 0) / longest if longest else 0)


def _add_bar(cell: Element, kind: str, share: float) -> None:
    bar = add(cell, "svg", class_="bar", viewBox="0 0 100 10", aria_hidden="true")
    bar.set("preserveAspectRatio", "none")
    if kind == "run":
        add(bar, "rect", class_="run", x=0, y=2, width=max(min(share, 1) * 100, 0.5), height=6)
    else:
        # People and pauses take hours where nodes take seconds, so their bars have no scale.
        add(bar, "rect", class_=kind, x=0, y=4, width=100, height=2)


def _add_nodes(section: Element, nodes: Mapping[str, Mapping[str, Any]]) -> None:
    names = ("Runs", "Total", "Median", "95 %", "Longest")
    table = add_table(section, ("Node", *names), numbers=names)
    for name, one in nodes.items():
        row = add(table, "tr")
        add(row, "td", name)
        add(row, "td", str(one["runs"]), class_="number")
        for key in ("seconds", "p50", "p95", "max"):
            add(row, "td", seconds_text(one[key]), class_="number")


def _clock(text: str | None, zone: tzinfo) -> str:
    return "" if text is None else local_time(datetime.fromisoformat(text), zone)[:19]
