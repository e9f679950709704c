"""The timeline of a report, as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any
from xml.etree.ElementTree import Element

from ckpt_cli.core.tasks.triggers import START
from ckpt_cli.render.markup import add
from ckpt_cli.render.report.checkpoints import local_time
from ckpt_cli.render.report.tables import add_section, add_table
from ckpt_cli.render.status import counted_names
from ckpt_cli.render.terminal.units import duration

MOST_STEPS = 200
_BRIEF = 0.1
_DEEPEST = 6
"""Levels of subgraphs that are told apart by their indent."""
_WORDS = {"human": "waited for an answer, and ran", "idle": "nothing ran before"}
_OPEN = {
    "human": "waiting for an answer",
    "idle": "failed, nothing runs",
    "run": "running or stopped",
}


def add_timeline(page: Element, timeline: Mapping[str, Any], zone: tzinfo) -> int:
    """Add the newest steps of `ckpt timeline`; return how many older ones are left out."""
    section = add_section(page, "timeline", "Timeline")
    steps = timeline["steps"]
    if timeline["seconds"] is None:
        add(section, "p", "The store holds no times of this thread.", class_="dim")
        return 0
    facts = [
        f"{duration(timeline[key])} {words}"
        for key, words in (
            ("seconds", "in all"),
            ("running_seconds", "running"),
            ("waiting_seconds", "waiting for answers"),
            ("idle_seconds", "idle"),
        )
        if timeline[key]
    ]
    said = "A step takes from the checkpoint before it to its own, which is saved at its end."
    add(section, "p", f"{', '.join(facts)}. {said}", class_="dim")
    steps = list(filter(_is_shown, steps))
    shown = steps[-MOST_STEPS:]
    table = add_table(
        section, "Steps", ("Step", "Nodes", "Saved", "Duration", ""), numbers=("Duration",)
    )
    _add_steps(table, shown, zone)
    if timeline["open"] is not None:
        _add_open(table, timeline["open"], zone)
    if timeline["nodes"]:
        add(section, "h3", "By node")
        _add_nodes(section, timeline["nodes"])
    return len(steps) - len(shown)


def _is_shown(step: Mapping[str, Any]) -> bool:
    """Return whether a step is worth a line: reading the input takes no time."""
    seconds, nodes = step["seconds"], step["nodes"]
    is_brief = seconds is not None and seconds < _BRIEF
    return not is_brief or not (nodes == [START] or (step["depth"] and step["cause"] == "input"))


def _add_steps(table: Element, steps: Sequence[Mapping[str, Any]], zone: tzinfo) -> None:
    outer = [one for one in steps if not one["depth"]]
    longest = max((one["seconds"] or 0 for one in outer if one["kind"] == "run"), default=0)
    began: str | None = None
    until: str | None = None
    for one in steps:
        if not one["depth"]:
            began, until = one["started_at"], one["ended_at"]
        elif until and one["started_at"] and _seconds_between(until, one["started_at"]) >= 0:
            began = until  # The step that called it is not over.
        kind, seconds = one["kind"], one["seconds"]
        row = add(table, "tr")
        add(row, "td", "" if one["step"] is None or one["depth"] else str(one["step"]))
        nodes = add(row, "td", class_=f"depth-{min(one['depth'], _DEEPEST)}")
        add(nodes, "span", counted_names(one["nodes"] or ()) or one["cause"] or "?")
        if kind in _WORDS and seconds is not None:
            add(nodes, "span", f" {_WORDS[kind]}", class_="dim")
        _add_time(add(row, "td", class_="when"), one["ended_at"], zone)
        add(row, "td", "" if seconds is None else duration(seconds), class_="number")
        after = _seconds_between(began, one["started_at"])
        if seconds is None:
            add(row, "td")
            continue
        _add_bar(add(row, "td"), kind, *_shares(after, seconds, longest))


def _shares(after: float, seconds: float, longest: float) -> tuple[float, float]:
    """Return where a bar begins and how long it is, as parts of the longest."""
    if not longest:
        return 0, 0
    begins = min(max(after / longest, 0), 1)
    return begins, min(seconds / longest, 1 - begins)


def _add_bar(cell: Element, kind: str, begins: float, share: float) -> None:
    bar = add(cell, "svg", class_="bar", viewBox="0 0 100 10", aria_hidden="true")
    bar.set("preserveAspectRatio", "none")
    if kind == "run":
        width = max(share * 100, 0.5)
        add(bar, "rect", class_="run", x=begins * 100, y=2, width=width, height=6)
    else:
        # People and pauses take hours where nodes take seconds, so their bars have no scale.
        add(bar, "rect", class_=kind, x=0, y=4, width=100, height=2)


def _add_open(table: Element, step: Mapping[str, Any], zone: tzinfo) -> None:
    row = add(table, "tr")
    add(row, "td", "now")
    nodes = add(row, "td", counted_names(step["nodes"]))
    words = "nothing has run" if step["cause"] == "fork" else _OPEN[step["kind"]]
    add(nodes, "span", f" {words} since", class_="dim")
    _add_time(add(row, "td", class_="when"), step["since"], zone)
    add(row, "td")
    _add_bar(add(row, "td"), "human" if step["kind"] == "human" else "idle", 0, 1)


def _add_nodes(section: Element, nodes: Mapping[str, Mapping[str, Any]]) -> None:
    names = ("Runs", "Total", "Median", "95 %", "Longest")
    table = add_table(section, "Nodes", ("Node", *names), numbers=names)
    for name, one in nodes.items():
        row = add(table, "tr")
        add(row, "td", name)
        add(row, "td", str(one["runs"]), class_="number")
        for key in ("seconds", "p50", "p95", "max"):
            add(row, "td", "" if one[key] is None else duration(one[key]), class_="number")


def _clock(text: str | None, zone: tzinfo) -> str:
    return "" if text is None else local_time(datetime.fromisoformat(text), zone)[:19]


def _add_time(cell: Element, text: str | None, zone: tzinfo) -> None:
    date, _, clock = _clock(text, zone).partition(" ")
    add(cell, "span", f"{date} ", class_="date")
    add(cell, "span", clock)


def _seconds_between(first: str | None, last: str | None) -> float:
    if first is None or last is None:
        return 0
    return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()
