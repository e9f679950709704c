"""Find out which writes were applied to make a checkpoint, and in which order.

A checkpoint keeps the writes of its tasks even if they were never applied. The `source` of the next
checkpoint tells which of them it applied. Sources: `_first` and `after_tick` in
`langgraph/pregel/_loop.py`, `perform_superstep` in `langgraph/pregel/main.py` and `apply_writes` in
`langgraph/pregel/_algo.py` (1.2.22), and the same functions of 0.2.14 to 1.0.10.
"""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby, islice, permutations, product
from typing import NamedTuple
from uuid import UUID, uuid5

from ckpt_backends.codec.values import Value
from ckpt_backends.model import NULL_TASK_ID
from ckpt_cli.core.state import Body
from ckpt_cli.core.tasks.task_ids import PUSH, UPDATE_PATH
from ckpt_cli.core.tasks.tasks import CONTROL, Step
from ckpt_cli.core.tasks.writes import TaskWrite

NOT_APPLIED = CONTROL | {"__no_writes__", "__return__", "__pregel_push"}
"""Channels that no checkpoint has: they record what happened to a task."""
_NEVER = datetime.min.replace(tzinfo=UTC)
_PERMUTED = 720
"""Maximum number of task orders that are tried if no order is stored: enough for six tasks."""

Batches = tuple[tuple[TaskWrite, ...], ...]
"""Batches of writes, applied one after another, each with one call of the channel's `update`."""


class WriteOrder(NamedTuple):
    """One way in which a child may have been made from its parent's state."""

    batches: Batches
    assumed: bool = False
    """There are several such ways or orders, and nothing stored tells which one is right."""


class PossibleOrders(NamedTuple):
    """What is known about how a child was made, for all its channels."""

    ways: tuple[WriteOrder, ...]
    """The likeliest first. A way without batches left the state unchanged."""
    ordered: bool
    """Whether the order of the tasks is stored, or proven by their ids."""
    lacking: str = ""
    """Why a channel that no way explains proves nothing; empty if it does prove something."""
    bumps: bool = True
    """Whether a step ran, so that values that live for one step are gone."""
    between: tuple[WriteOrder, ...] = ()
    """How a DeltaChannel that the child does not store was made, if not in one of `ways`: readers
    apply all writes that are stored with the parent, whatever the child was made for."""


class SortedWrites(NamedTuple):
    """A checkpoint's writes by who made them, each group in the order in which it is applied."""

    null: tuple[TaskWrite, ...]
    """Writes by the caller, with `Command(update=..., goto=...)`."""
    tasks: tuple[TaskWrite, ...]
    updates: tuple[TaskWrite, ...]
    """Writes by `update_state`, as far as their paths show it."""
    inputs: tuple[TaskWrite, ...]
    """Writes of a new input to DeltaChannels; LangGraph 1.2 stores them on the input's parent."""

    @property
    def is_empty(self) -> bool:
        return not (self.null or self.tasks or self.updates or self.inputs)

    @property
    def applied(self) -> tuple[WriteOrder, ...]:
        """All of them, as readers of a DeltaChannel apply them."""
        return _ways((self.null, self.tasks, self.updates, self.inputs))


def sort_writes(
    checkpoint_id: str, placed: Iterable[TaskWrite], step: Step, body: Body
) -> SortedWrites:
    """Group the writes of a checkpoint that its children may be made from."""
    null: list[TaskWrite] = []
    tasks: list[TaskWrite] = []
    updates: list[TaskWrite] = []
    inputs: list[TaskWrite] = []
    planned = {run.id for run in step.tasks}
    for one in placed:
        if one.write.channel in NOT_APPLIED:
            continue
        if one.write.task_id == NULL_TASK_ID:
            null.append(one)
        elif one.write.node is not None:
            tasks.append(one)
        elif one.write.task_id not in planned and one.write.task_id == _input_task(checkpoint_id):
            inputs.append(one)
        elif one.path.startswith(UPDATE_PATH):
            updates.append(one)
        else:
            tasks.append(one)
    if not _has_order(body) and not any(one.write.node for one in tasks):
        places = {run.id: place for place, run in enumerate(step.tasks)}
        tasks.sort(key=lambda one: (places.get(one.write.task_id, len(places)), one.write.idx))
    return SortedWrites(tuple(null), tuple(tasks), tuple(updates), tuple(inputs))


def possible_orders(
    source: str | None,
    writes: SortedWrites,
    step: Step,
    body: Body,
    child: Body,
    *,
    again: bool,
    skipped: bool,
    takes_input: bool,
) -> PossibleOrders:
    """Return how a child with this source, and with a body of its own, was made from a checkpoint.

    `again`: the checkpoint has another child with the same source. `skipped`: steps between the two
    are not stored. `takes_input`: the child stores the input in a separate channel.
    """
    is_ordered = _has_order(body) and all(one.path for one in writes.tasks)
    match source:
        case "input":
            ways = _ways((writes.null, writes.inputs), (writes.inputs,), ())
            lacking = "" if takes_input else "an input's writes to other channels are not stored"
            return PossibleOrders(ways, is_ordered, lacking, bumps=False, between=writes.applied)
        case "fork":
            ways, lacking = _ways((writes.null,), ()), "what a fork was given is not stored"
            return PossibleOrders(ways, is_ordered, lacking, bumps=False, between=writes.applied)
        case "update":
            finished = writes.tasks
            if writes.updates:
                ways = _ways(
                    (writes.updates,),
                    (writes.null, writes.updates),
                    (writes.null, finished, writes.updates),
                )
            else:
                ways = _ways((finished,), (writes.null, finished), ())
            lacking = "" if writes.updates else "the writes of update_state are not stored"
            lacking = lacking or (_AGAIN if again else "")
            return PossibleOrders(ways, is_ordered, lacking, between=writes.applied)
    lacking = _AGAIN if again else _loop_lacks(writes, step, body, child, skipped=skipped)
    return PossibleOrders(_ways((writes.null, writes.tasks)), is_ordered, lacking)


def recorded_orders(writes: SortedWrites) -> PossibleOrders:
    """Return how a checkpoint was made, for layouts that store with it the writes it was made from.

    The writes of one task are applied after those of another, in order of time: tasks that ran one
    after the other may have written into the same checkpoint.
    """
    tasks = [tuple(some) for _, some in groupby(writes.tasks, lambda one: one.write.task_id)]
    times = {min(one.write.at or _NEVER for one in some) for some in tasks}
    return PossibleOrders(
        _ways((writes.null, *tasks)),
        ordered=len(times) == len(tasks),
        lacking="" if tasks else "none of the writes of its tasks are stored",
        bumps=False,
    )


_AGAIN = "its parent ran more than once, and the runs share the rows of their writes"


def _loop_lacks(writes: SortedWrites, step: Step, body: Body, child: Body, *, skipped: bool) -> str:
    if skipped:
        return 'the steps before it are not stored, as with durability="exit"'
    # What a node has seen is recorded when its step ends. A node that seems ready but did not run
    # shows what LangGraph 0.6 and later may store for a join: the set as changed by the next step.
    silent = [
        run.node or "?"
        for run in step.tasks
        if run.id is None
        and (run.path.startswith(f"~{PUSH}") or _seen(child, run.node) != _seen(body, run.node))
    ]
    if silent and len(silent) == len(step.tasks) and not writes.tasks:
        return "none of the writes of its tasks are stored"
    if silent:
        return f"the writes of {silent[0]} are not stored, as after a node cache hit"
    if not step.tasks and not writes.tasks:
        return "none of the writes of its tasks are stored"
    return ""


def _seen(body: Body, node: str | None) -> object:
    return body.seen.get(node or "")


def orders_of_channel(
    made: PossibleOrders, channel: str, *, between: bool = False
) -> Iterator[WriteOrder]:
    """Yield the ways to make one channel, with only its writes; in any order if none is stored.

    The first is the likeliest. Batches without a write to the channel are left out. `between`: it
    is a DeltaChannel that the child does not store.
    """
    if between and made.between:
        made = made._replace(ways=made.between)
    if made.ordered and len(made.ways) == 1:
        batches = made.ways[0].batches
        yield WriteOrder(tuple(mine for batch in batches if (mine := _of(batch, channel))))
        return
    several = len(made.ways) > 1
    seen: set[tuple[tuple[int, ...], ...]] = set()
    for way in made.ways:
        batches = tuple(mine for batch in way.batches if (mine := _of(batch, channel)))
        if (key := _key(batches)) not in seen:
            seen.add(key)
            yield WriteOrder(batches, several)
    if made.ordered:
        return
    for way in made.ways:
        batches = tuple(mine for batch in way.batches if (mine := _of(batch, channel)))
        for shuffled in islice(product(*map(_permuted, batches)), _PERMUTED):
            if (key := _key(shuffled)) not in seen:
                seen.add(key)
                yield WriteOrder(shuffled, assumed=True)


def written_channels(made: PossibleOrders) -> set[str]:
    """Return the channels that the child's writes go to."""
    return {one.write.channel for way in made.ways for batch in way.batches for one in batch}


def writes_in_metadata(metadata: Mapping[str, Value]) -> Counter[str]:
    """Count the writes to each channel that metadata names (before LangGraph 0.5 only)."""
    wrote = metadata.get("writes")
    found: Counter[str] = Counter()
    for outputs in wrote.values() if isinstance(wrote, dict) else ():
        for output in outputs if isinstance(outputs, list) else [outputs]:
            names = output if isinstance(output, dict) else ()
            found.update(name for name in names if isinstance(name, str))
    return found


def _ways(*found: Batches) -> tuple[WriteOrder, ...]:
    """Return the ways without duplicates, and without empty batches."""
    if len(found) == 1:  # Most steps ran tasks.
        return (WriteOrder(tuple(batch for batch in found[0] if batch)),)
    kept: dict[tuple[tuple[int, ...], ...], Batches] = {}
    for batches in found:
        full = tuple(batch for batch in batches if batch)
        kept.setdefault(_key(full), full)
    return tuple(WriteOrder(batches, assumed=len(kept) > 1) for batches in kept.values())


def _key(batches: Batches) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(id, batch)) for batch in batches)


def _of(batch: Sequence[TaskWrite], channel: str) -> tuple[TaskWrite, ...]:
    return tuple(one for one in batch if one.write.channel == channel)


def _permuted(batch: Sequence[TaskWrite]) -> Iterator[tuple[TaskWrite, ...]]:
    """Yield the writes of a batch with its tasks in every order."""
    tasks = [tuple(group) for _, group in groupby(batch, lambda one: one.write.task_id)]
    chosen = permutations(tasks) if len(tasks) <= 6 else iter([tuple(tasks)])
    for order in chosen:
        yield tuple(one for task in order for one in task)


def _has_order(body: Body) -> bool:
    """Return whether tasks are applied in the order of their paths.

    This is not so before about LangGraph 0.2.15. Its bodies have `v` 1, as have those of
    LangGraph.js, which does sort them.
    """
    return body.v > 1 or body.is_javascript


@lru_cache(maxsize=1)
def _input_task(checkpoint_id: str) -> str:
    try:
        return str(uuid5(UUID(checkpoint_id), "__input__"))
    except ValueError:
        return ""
