"""Compare what `ckpt` reads with the results of LangGraph's own library."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ckpt_backends.codec import to_json
from ckpt_backends.protocol import Store
from ckpt_cli.core.state import END, PREVIOUS, ROOT
from ckpt_cli.reading.states import read_state
from ckpt_cli.reading.thread import Moment, ThreadReader, TriggerInference

EMPTY: tuple[Any, ...] = ([], {}, 0, 0.0, "", False, None, {"$set": []})
"""Start values of channels with a reducer; no row contains them."""


@dataclass(frozen=True)
class Known:
    """Known differences from the era's own library that are correct."""

    next_unknown: frozenset[tuple[str, int]] = frozenset()
    """(thread, step) with an unknown `next`: `ckpt` must answer `?` and never guess."""
    open_ends: bool = False
    """Bodies do not tell what follows a node, so that it may be unknown that nothing does."""
    waiting: Mapping[str, list[str]] | None = None
    """Threads for which the newest library reads `waiting` wrongly, with the right answer from
    the rows.
    """
    lost_interrupts: bool = False
    """The library loses stored Interrupts; the rows contain them."""
    lost_deltas: bool = False
    """Earlier writes of a DeltaChannel are gone, so the library reads it as empty."""
    sparse_objects: bool = False
    """The rows leave out default values of objects, and use an old path for their class."""
    pickled: bool = False
    """The rows preserve tuples and classes of nested objects, and the truth does not."""
    printed: bool = False
    """The truth contains the `repr` of objects without another form; bytearrays are bytes in it."""


def check_thread(
    store: Store,
    thread_id: str,
    truth: Mapping[str, Any],
    known: Known,
    inference: TriggerInference | None = None,
) -> set[tuple[str, int]]:
    """Assert that every checkpoint of a thread reads as its truth says.

    `inference` is what was learned from the whole store before. Returns the (thread, step) with an
    unknown `next`.
    """
    reader = ThreadReader(store, thread_id, inference)
    assert reader.namespaces == sorted(truth["history"])
    unknown: set[tuple[str, int]] = set()
    for namespace, history in truth["history"].items():
        moments = list(reader.moments(namespace, values=True, state=True))
        assert [one.key.checkpoint_id for one in moments] == [
            one["checkpoint_id"] for one in history
        ]
        for moment, expected in zip(moments, history, strict=True):
            where = f"{thread_id!r} {namespace!r} step {expected['step']}"
            _check_facts(moment, expected, where)
            _check_values(reader, moment, expected, known, where)
            if moment.step.next is None:
                if expected["next"] or not known.open_ends:
                    unknown.add((thread_id, expected["step"]))
            else:
                assert sorted(moment.step.next) == expected["next"], where
            _check_interrupts(moment, expected, known, where)
        if namespace == "" and moments and "waiting" in truth:
            _check_waiting(moments[0], thread_id, truth, known)
    return unknown


def _check_facts(moment: Moment, expected: Mapping[str, Any], where: str) -> None:
    assert moment.checkpoint.parent_checkpoint_id == expected["parent_checkpoint_id"], where
    assert moment.number == expected["step"], where
    assert moment.source == expected["source"], where
    assert canonical({k: to_json(v) for k, v in moment.metadata.items()}) == canonical(
        expected["metadata"]
    ) or expected["metadata"].get("writes"), where


def _check_values(
    reader: ThreadReader, moment: Moment, expected: Mapping[str, Any], known: Known, where: str
) -> None:
    state = read_state(reader, moment)
    forms = {name: to_json(value) for name, value in state.values.items()}
    forms.pop(PREVIOUS, None)  # `get_state` leaves out what an @entrypoint saved.
    got = canonical(printed(forms) if known.printed else forms)
    want = expected["values"]
    if set(got) <= {ROOT, END} and (got or not isinstance(want, dict)):
        # The state of such a graph is a single value, which the library returns as it is.
        want = dict.fromkeys(got, want)
    want = canonical(want)
    for name in set(want) - set(got):
        # A saver that stores values apart may store a version without a value.
        apart = moment.checkpoint.blobs is not None
        if want[name] in EMPTY and (apart or name not in moment.body.versions):
            del want[name]
    for name in state.unstored if known.lost_deltas else ():
        assert want.pop(name) in EMPTY, where
        del got[name]
    got = as_printed(got, want) if known.pickled else got
    assert same(got, want, sparse=known.sparse_objects), f"{where}\n{got}\n{want}"


def _check_interrupts(
    moment: Moment, expected: Mapping[str, Any], known: Known, where: str
) -> None:
    runs = [*moment.step.tasks, *(moment.step.others if moment.step.next is None else ())]
    questions = [question for run in runs for question in run.questions]
    has_ids = any("id" in one for one in expected["interrupts"])
    got = [
        {"value": to_json(one.value), **({"id": one.interrupt_id} if has_ids else {})}
        for one in questions
    ]
    if known.lost_interrupts and not expected["interrupts"]:
        return
    assert sorted(map(text, got)) == sorted(map(text, expected["interrupts"])), where


def _check_waiting(head: Moment, thread_id: str, truth: Mapping[str, Any], known: Known) -> None:
    expected = (known.waiting or {}).get(thread_id, truth["waiting"])
    if expected is None:  # a store filled now: its own library is the newest
        expected = truth["waiting_own"]
    if head.step.waiting is None:
        is_known = (thread_id, head.number) in known.next_unknown
        assert is_known or (known.open_ends and not expected), thread_id
    else:
        assert sorted(head.step.waiting) == expected, thread_id


def canonical(form: Any) -> Any:
    """Return a JSON form with sorted members, and one form for a single list argument."""
    if isinstance(form, list):
        return [canonical(item) for item in form]
    if not isinstance(form, dict):
        return form
    if "$args" in form:
        form = {"$type": form["$type"], "$value": form["$args"]}
    if form.get("$type") == "pathlib.Path":  # Python loads it as this class
        form = {**form, "$type": "pathlib.PosixPath"}
    if form.get("$type") == "builtins.frozenset":
        form = {**form, "$value": sorted(map(canonical, form["$value"]), key=text)}
    if set(form) == {"$set"}:
        return {"$set": sorted(map(canonical, form["$set"]), key=text)}
    if set(form) == {"$map"}:
        return {"$map": sorted(map(canonical, form["$map"]), key=text)}
    return {key: canonical(item) for key, item in form.items()}


def as_printed(got: Any, want: Any) -> Any:
    """Return a form without the tuples and classes that the truth does not contain."""
    if isinstance(got, dict) and got.keys() == {"$tuple"} and isinstance(want, list):
        got = got["$tuple"]
    if isinstance(got, list) and isinstance(want, list) and len(got) == len(want):
        return [as_printed(one, other) for one, other in zip(got, want, strict=True)]
    if isinstance(got, dict) and isinstance(want, dict):
        told = got.keys() if "$type" in want else got.keys() - {"$type"}
        return {name: as_printed(got[name], want.get(name)) for name in told}
    return got


def printed(form: Any) -> Any:
    """Return a JSON form with the pickled objects of the fixtures as Python prints them."""
    if isinstance(form, list):
        return [printed(item) for item in form]
    match form:
        case {"$type": "zoo_types.Unserializable" as name, "label": label, "parts": parts}:
            return {"$type": name, "$repr": f"Unserializable({label!r}, {parts!r})"}
        case {"$type": "builtins.complex" as name, "$args": [real, imaginary]}:
            return {"$type": name, "$repr": repr(complex(real, imaginary))}
        case {"$type": "builtins.range" as name, "$args": [first, end, 1]}:
            return {"$type": name, "$repr": repr(range(first, end))}
        case {"$type": "builtins.bytearray", "$value": data}:
            return data
        case dict():
            return {key: printed(item) for key, item in form.items()}
    return form


def same(got: Any, want: Any, *, sparse: bool) -> bool:
    """Return whether two forms are equal; with `sparse`, an object may leave out its defaults."""
    if not sparse or type(got) is not type(want):
        return text(got) == text(want)
    if isinstance(got, list):
        return len(got) == len(want) and all(
            same(one, other, sparse=True) for one, other in zip(got, want, strict=True)
        )
    if not isinstance(got, dict):
        return text(got) == text(want)
    names = got.keys() - {"$type"}
    if "$type" in got:
        if got["$type"].rpartition(".")[2] != want["$type"].rpartition(".")[2]:
            return False
        left_out = want.keys() - got.keys()
        if names - want.keys() or any(want[key] not in EMPTY for key in left_out):
            return False
    elif got.keys() != want.keys():
        return False
    return all(same(got[key], want[key], sparse=True) for key in names)


def text(form: Any) -> str:
    """Return a JSON form as sortable text that distinguishes 1, 1.0 and true."""
    return json.dumps(canonical(form), sort_keys=True)
