"""What `ckpt` says that a resume does, against what the official library did.

Each cell of the matrix stops an official graph in one way and resumes copies of the store in every
way; each node says in a log that it began (see `graphs.py` and `matrix.py`).
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import ckpt_cli
from tests.kit.command import ROOT, ckpt
from tests.kit.eras import MINOR_RELEASES, PINNED, environment
from tests.kit.graphs import CELLS

FIRST = {
    *("bad-answer-again", "break-after-two", "chain-answer-unasked", "chain-answer-unread"),
    *("chain-done", "chain-input-saved", "chain-second-question", "chain-stored-last"),
    *("defer-join-stored", "delta-asked", "fork-asked-failed-done"),
    *("goto-beside-question", "goto-sent-beside-sent", "handler-asked-answered-badly"),
    *("handler-call-answered-badly", "handler-died"),
    *("handler-send-asked", "handler-sub-default-died", "send-bad-answer"),
    *("send-died", "send-plan-stored", "sub-asked-two-one-answered", "sub-inner-done"),
    "sub-deep-second-question",
    *("sub-inner-input", "sub-inner-last-stored", "sub-inner-stored", "tasks-asked", "tasks-died"),
    *("tasks-second-bad-answer", "tasks-second-died", "updated", "updated-sub"),
}
"""What the first tier looks at; the rest is slow."""
ANSWERS, FIRST_OF_ALL = "answers the question", "first make sure that no run is in progress"
SAME = "the same answer again: it is stored, and comes before any other"
INSIDE = "before LangGraph 1.2.16, a subgraph does not use its saved results: nodes run again"
SAYS = {
    "bad-answer-again": f"runs b again; gives b {SAME};"
    " the answer that was given last is stored, too, but no question gets it",
    "chain-answer-unasked": "runs b again; if a node asks, it gets the answer that was given last",
    "chain-answer-unread": "gives the answer that is stored already to the first question;"
    " runs b again",
    "chain-done": "starts a new run with a new input",
    "chain-second-question": f"{ANSWERS}; runs b again;"
    " without an answer, the last one is used again",
    "chain-stored-last": "uses the saved result of c without running it;"
    f" ends there: no node is left to run; {FIRST_OF_ALL}",
    "fork-asked-failed-done": f"{ANSWERS}; uses the saved result of d without running it;"
    " runs a, b again",
    "goto-beside-question": f"{ANSWERS}; runs b, c again",
    "handler-asked-answered-badly": "runs the error handler of a again",
    "handler-send-asked": "answers the 2 questions; uses the saved result of work without running"
    " it; runs the error handler of work again, and the error handler of work again",
    "handler-sub-default-died": f"runs the error handler of a in sub; {INSIDE}; {FIRST_OF_ALL}",
    "send-died": "uses the saved results of work ×2 without running them; runs work;"
    f" {FIRST_OF_ALL}",
    "sub-asked-two-one-answered": f"{ANSWERS}; uses the saved result of sub > j without running"
    f" it; runs sub > k again; {INSIDE}",
    "sub-deep-second-question": f"{ANSWERS}; runs sub > deep > k again;"
    " without an answer, the last one is used again",
    "sub-inner-last-stored": "uses the saved result of sub > k without running it; goes on, but the"
    f" store does not say which node runs; {FIRST_OF_ALL}",
    "sub-inner-done": "uses the saved result of sub without running it; goes on, but the store"
    f" does not say which node runs; {FIRST_OF_ALL}",
    "tasks-second-bad-answer": "uses the saved result of main > one without running it;"
    f" runs main again; gives main > two {SAME}",
}
"""What a person reads of some of them."""
UNKNOWN = {
    # Only the start node has run, and the store does not tell which nodes follow it.
    *("chain-input-saved", "sub-inner-input"),
    # A subgraph call has come to its end, and the store does not tell which nodes follow it.
    *("out-of-steps-sub", "sub-inner-done", "sub-inner-last-stored"),
    # The store does not tell the name of an entrypoint that has never finished.
    *("tasks-asked", "tasks-died", "tasks-own-died", "tasks-side-asked"),
}
"""Where what runs cannot be told from the store."""


@contextmanager
def matrix(
    folder: Path, python: str | Path = sys.executable, packages: str | Path = ""
) -> Iterator[Callable[[str], Any]]:
    """Yield a function that stops and resumes a cell with the library of a Python: one process
    imports it once, and forks for each turn. `packages` go before those of its environment.
    """
    line = [str(python), "-W", "ignore", "-m", "tests.resume.matrix", str(folder)]
    settings = {**os.environ, "PYTHONPATH": str(packages)}
    with subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=settings
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        given, said = worker.stdin, worker.stdout

        def truth(name: str) -> Any:
            given.write(name + "\n")
            given.flush()
            assert said.readline().strip() == name
            told = json.loads((folder / f"{name}.json").read_text("utf-8"))
            return {**told, "store": folder / f"{name}.db"}

        yield truth
        given.close()


@pytest.fixture(scope="session")
def truth_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    with matrix(tmp_path_factory.mktemp("matrix")) as truth:
        yield truth


def claim_of(store: Path) -> Any:
    """What `ckpt` says that a resume does; None if nothing was stored."""
    with ckpt_cli.open(str(store)) as found:
        return found["t"].summary()["resume"] if "t" in found else None


DEFAULT = re.compile("__default_error_handler__$")


def disagreements(claim: Any, told: Any) -> list[str]:
    """Return where the `resume` of a summary is not what happened, one text each.

    Where the store does not tell what runs, what is said must still be true.
    """
    ways = told["resumes"]
    call = claim["call"] or ""
    happened: dict[str, Any] = ways["none"]
    if "{...}" in call:
        # The run has ended: only a new input starts anything.
        happened = {key: [] for key in ways["none"]}
    elif "resume" in call:
        happened = ways.get("ids", ways.get("scalar", ways["none"]))
    is_known = claim["runs"] is not None
    wrong: list[str] = []
    if is_known:
        wrong += _runs(Counter(claim["runs"]), Counter(happened["runs"]), told["namespaces"])
    applied, used = Counter(claim["applies"]), Counter(happened["applies"])
    for one in (applied - used).keys() & set(told["namespaces"]):
        # A subgraph call that had come to its end gives its result without running a node.
        del applied[one]
        if any(path.startswith(f"{one} > ") for path in happened["runs"]):
            wrong.append(f"applies {one}, whose nodes ran: {happened['runs']}")
    handlers = happened["handlers"]
    if claim.get("assumed"):
        # The name of a handler that stored nothing is not stored: it is said to be likely only.
        handlers = [DEFAULT.sub("__error_handler__a", one) for one in handlers]
    said = {
        "applies": (applied, used),
        "handlers": (Counter(claim["handlers"]), Counter(handlers)),
        "asks": (Counter(claim["asks"]), Counter(ways["none"]["asks"])),
    }
    for key, (claimed, seen) in said.items():
        _name(claimed, seen)
        if claimed - seen or (is_known and claimed != seen):
            wrong.append(f"{key} {sorted(claimed.elements())}, not {sorted(seen.elements())}")
    repeats, known = set(claim["repeats"]), set(happened["known_repeats"])
    # A function that calls a subgraph repeats with its nodes.
    if any(not _within(one, happened["repeats"]) for one in repeats):
        wrong.append(f"repeats {claim['repeats']}, not {happened['repeats']}")
    # So does an entrypoint with the functions that it calls.
    callers = tuple(f"{one} > " for one in repeats & set(happened["runs"]))
    known = {one for one in known if not one.startswith(callers)}
    # One that only called a subgraph is named by the node in it that runs.
    known = {one for one in known if not _within(one, set(claim["runs"] or ()) - {one})}
    if is_known and any(not _within(one, repeats) for one in known):
        wrong.append(f"repeats {claim['repeats']}, without {happened['known_repeats']}")
    return wrong


def _within(path: str, paths: Iterable[str]) -> bool:
    """Return whether a path or one beneath it is among others."""
    return any(one == path or one.startswith(f"{path} > ") for one in paths)


def _name(claimed: Counter[str], seen: Counter[str]) -> None:
    """Name the `@task` functions of which only the caller is known, as what happened names them."""
    for path in [one for one in claimed - seen if one.startswith("main")]:
        for one in (seen - claimed).elements():
            if claimed[path] and one.startswith(path.removesuffix("?")):
                claimed.subtract([path])
                claimed.update([one])
    for path in [one for one in claimed if not claimed[one]]:
        del claimed[path]


def _runs(claimed: Counter[str], ran: Counter[str], namespaces: list[str]) -> Iterator[str]:
    """Compare the nodes that run; a node stands for those of its subgraph if none of its
    checkpoints is stored, and a function that calls a subgraph runs with it.
    """
    for path in claimed:
        inner = [one for one in ran if one.startswith(f"{path} > ")]
        if path not in ran and (not inner or path in namespaces):
            yield f"runs {path}, which did not begin: {sorted(ran)}"
        if path in ran and claimed[path] != ran[path]:
            yield f"runs {path} {claimed[path]} times, not {ran[path]}"
    for path in ran.keys() - claimed.keys():
        outer = [one for one in claimed if path.startswith(f"{one} > ")]
        calls = [one for one in claimed if one.startswith(f"{path} > ")]
        if not calls and not (outer and not set(outer) & set(namespaces)):
            yield f"does not run {path}: {sorted(claimed.elements())}"


@pytest.mark.parametrize(
    "name",
    [name if name in FIRST else pytest.param(name, marks=pytest.mark.nightly) for name in CELLS],
)
def test_a_resume_does_what_was_said(name: str, truth_of: Callable[[str], Any]) -> None:
    told = truth_of(name)
    claim = claim_of(told["store"])
    if claim is None:
        assert told["resumes"]["none"]["runs"] == []
    elif told["next"][:1] == ["raised"]:
        # `defer` was switched on since: the graph cannot read the thread, and no store tells that.
        assert name == "defer-on"
        assert all("raised" in one["said"] for one in told["resumes"].values())
    else:
        assert not disagreements(claim, told)
        assert claim["runs"] is not None or name in UNKNOWN
        assert claim["does"] == SAYS.get(name, claim["does"])


def test_the_commands_say_the_same(truth_of: Callable[[str], Any]) -> None:
    told = truth_of("handler-ran-sibling-asked")
    claim = ckpt("-s", told["store"], "show", "t", "-o", "json").json["resume"]
    assert not disagreements(claim, told)
    assert (claim["handlers"], claim["asks"]) == (["__error_handler__a"], ["b"])


# What older releases do, each with what it stored itself -------------------------------------

USES_SAVED_RESULTS = (1, 2, 16)
"""Before, a subgraph call did not use what was saved of its step: its finished nodes ran again, and
so did those that had failed, in place of their error handlers."""
LISTS = ("runs", "applies", "asks", "handlers", "repeats", "known_repeats")


def without(calls: set[str], found: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is said of some subgraph calls and of the nodes in them."""

    def is_kept(path: str) -> bool:
        within = path.rpartition(" > ")[0] in calls
        return not within and not any(f"{one} > ".startswith(f"{path} > ") for one in calls)

    return {
        key: [path for path in one if is_kept(path)] if key in LISTS and one is not None else one
        for key, one in found.items()
    }


@pytest.mark.release
@pytest.mark.parametrize("release", [*PINNED, *MINOR_RELEASES, "1.2.15", "1.2.16"])
def test_a_release_resumes_as_was_said(release: str, tmp_path: Path) -> None:
    python, packages = environment(release)
    numbers = tuple(map(int, release.split(".")))
    wrong = []
    with matrix(tmp_path, python, packages) as truth_of:
        for name, cell in CELLS.items():
            if cell.since > numbers:
                continue
            told = truth_of(name)
            assert told["release"] == release
            claim = claim_of(told["store"])
            if claim is None or told["next"][:1] == ["raised"]:
                continue
            if numbers < USES_SAVED_RESULTS:
                saved = [*claim["applies"], *claim["handlers"]]
                calls = {path.rpartition(" > ")[0] for path in saved} & set(told["namespaces"])
                claim = without(calls, claim)
                ways = told["resumes"]
                told = {**told, "resumes": {way: without(calls, ways[way]) for way in ways}}
            wrong += [(name, one) for one in disagreements(claim, told)]
    assert not wrong, "\n".join(map(str, wrong))
