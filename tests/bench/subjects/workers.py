"""Two processes, and a cluster of two workers, beside one process."""

from __future__ import annotations

from tests.bench.declared import Asked, Beside, Made, Measurement, Subject, ckpt

PATTERN = "[qx]+[jz]+[qx]+"
_TWO, _CLUSTER = 1.8, 0.9
"""Two processes are so many times as fast as one, and a cluster has this share of their speed."""


def _same(made: Made, ask: Asked) -> None:
    words = ("grep", "turn 1: ", "--match", "0*")
    alone = ask(*words)
    assert len(alone) > 1
    assert ask(*words, "--jobs", "2") == alone
    assert ask(*words, "--cluster", made.facts["address"]) == alone


SUBJECT = Subject(
    "workers",
    "several processes, and a cluster",
    [
        Measurement(
            what="grep of a pattern without a text --jobs 2, no hit",
            store="sqlite long, a cluster",
            ours=ckpt("grep", PATTERN, "--jobs", "2"),
            beside=[
                Beside("one process", ckpt("grep", PATTERN), 1 / _TWO),
                Beside(
                    "a cluster of 2 workers",
                    ckpt("grep", PATTERN, "--cluster", "{address}"),
                    1 / _CLUSTER,
                ),
            ],
            check=_same,
            rounds=1,
            limit=900,
        )
    ],
)
