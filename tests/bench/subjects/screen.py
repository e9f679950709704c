"""The screen on large stores, a report in a browser, and commands that follow or halve a thread."""

from __future__ import annotations

import sys

from tests.bench.declared import Made, MakesCommand, Measurement, Subject, ckpt
from tests.bench.measure import Command

_TURNS = "values.turns > {last}"


def _script(name: str, *arguments: str) -> MakesCommand:
    """Return a program of this folder that prints its own figures for a store."""

    def command(made: Made) -> Command:
        store = [made.url] if made.url else []
        return [
            sys.executable,
            "-m",
            f"tests.bench.{name}",
            *store,
            *(one.format(**made.facts) for one in arguments),
        ]

    return command


SCREEN = Subject(
    "screen",
    "ckpt tui",
    [
        Measurement(what="Textual alone", store="nothing", ours=_script("screen"), tells=True),
        Measurement(what="ckpt tui", store="sqlite", ours=_script("screen"), tells=True),
        Measurement(
            what="ckpt tui, a step, median",
            store="sqlite deep",
            ours=_script("steps"),
            seconds=0.1,
            tells=True,
        ),
    ],
)
REPORT = Subject(
    "report",
    "ckpt report, and the page in a browser",
    [
        Measurement(
            what=f"report {thread} of {{deep}} checkpoints",
            store="sqlite deep",
            ours=_script("browse", thread, "{deep}"),
            tells=True,
        )
        for thread in ("loop", "straight", "forked")
    ],
)
FOLLOWING = Subject(
    "following",
    "bisect and tail",
    [
        *(
            Measurement(
                what=f"bisect, {{deep}} checkpoints: {name}",
                store="sqlite deep",
                ours=ckpt("bisect", "loop", *words),
                seconds=5,
                rounds=2,
            )
            for name, words in {
                "values": (_TURNS,),
                "step": ("step > {last}",),
                "next": ("next = work and step > {last}",),
                "values, --binary": (_TURNS, "--binary"),
            }.items()
        ),
        Measurement(what="tail", store="sqlite", ours=_script("looks"), tells=True),
    ],
)
COMPLETIONS = Subject(
    "completions",
    "what the shell asks as a word is completed",
    [
        Measurement(
            what=f"complete {kind} '{word}'",
            store="sqlite small threads",
            ours=lambda made, kind=kind, word=word: [  # type: ignore[misc]
                *(str(part) for part in ckpt()(made)[:1]),
                *("_complete", kind, word, made.url, "", "new-99"),
            ],
        )
        for kind, word in (
            *(("thread", ""), ("thread", "new-5"), ("target", "new-99"), ("target", "new-99@")),
            *(("ref", ""), ("ns", ""), ("channel", ""), ("thread", "no such")),
        )
    ],
)
