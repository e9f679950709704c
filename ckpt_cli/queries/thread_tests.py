"""Reads a thread as tests: each task with what it was given and did, and the whole of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ckpt_backends import shell
from ckpt_backends.codec.values import Cut, Tagged, Value
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import NULL_TASK_ID, Status, Write
from ckpt_cli.core import state
from ckpt_cli.core.conversation import title_of
from ckpt_cli.core.lineage import is_stateful, namespace_kind
from ckpt_cli.core.resume import user_metadata
from ckpt_cli.core.state import RESUME, START, caller_of
from ckpt_cli.core.tasks import CONTROL, UPDATE_PATH, Task, call_of, is_call, sent_index
from ckpt_cli.core.thread_tests import (
    Fields,
    LeftOut,
    TaskOutput,
    TaskRecord,
    ThreadRecord,
    TurnRecord,
    WholeThreadRecord,
    output_of,
    sent,
    tools_to_call,
    unread_part,
)
from ckpt_cli.core.values import fields_of, same
from ckpt_cli.queries.secrets import decode_whole
from ckpt_cli.reading.states import read_state
from ckpt_cli.reading.thread import Moment, ThreadReader, called

_DEEPEST = 20
"""Number of subgraphs in each other that are read."""


def recorded_thread(reader: ThreadReader) -> ThreadRecord:
    """Return a thread as tests, along the line that leads to its head.

    Raises `NotFound` if it has no root checkpoint, and `Unsupported` if its layout keeps no
    history or no writes, if its head is not found by its id, or if LangGraph.js wrote it.
    """
    if not reader.has_history or reader.is_values_only:
        raise Unsupported(
            "this layout does not keep what each task was given and wrote",
            hint="tests can be made of layouts with history: docs/stores.md",
        )
    reader.check_root()
    line = _line(reader, "", reader.ancestry("", reader.head("") or ""))
    if not line:
        # Its id is stored as something else than text.
        raise Unsupported(
            f"the newest checkpoint of thread '{reader.thread_id}' is not found by its id",
            hint=shell.command("ckpt", "doctor", ids=[reader.thread_id]),
        )
    if line[-1].body.is_javascript:
        raise Unsupported(
            f"LangGraph.js wrote thread '{reader.thread_id}': its graph cannot run in Python",
            hint="tests can be written of threads of LangGraph for Python only",
        )
    tasks = _Tasks(reader)
    tasks.read("", line)
    head = line[-1]
    whole = _whole(reader, line, tasks)
    title = title_of(head.body.values)
    return ThreadRecord(
        reader.thread_id,
        head.key.checkpoint_id,
        head.at,
        title if isinstance(title, str) else "",
        dict(user_metadata(head.metadata).items()),
        tasks.found,
        whole,
        tasks.left_out,
    )


def _line(reader: ThreadReader, ns: str, newest_first: Sequence[str]) -> list[Moment]:
    """Return these checkpoints, oldest first, with all of their values."""
    found = {
        one.key.checkpoint_id: one
        for one in reader.moments(ns, newest_first, values=True, state=True)
    }
    return [found[one] for one in reversed(newest_first) if one in found]


class _Tasks:
    """The tasks of a thread, in the order in which they ended."""

    def __init__(self, reader: ThreadReader) -> None:
        self.found: list[TaskRecord] = []
        self.left_out: list[LeftOut] = []
        self.at: dict[str, list[TaskRecord]] = {}
        """Root checkpoint to the tasks of its step."""
        self._reader = reader
        self._names: Counter[str] = Counter()

    def read(
        self, ns: str, line: Sequence[Moment], label: str = "", number: str = ""
    ) -> list[TaskRecord]:
        """Add the tasks of a namespace; `label` and `number` tell what called it.

        Returns those that stand in no other.
        """
        own: list[TaskRecord] = []
        for moment, child in zip(line, [*line[1:], None], strict=True):
            here: list[TaskRecord] = []
            for task in moment.step.tasks:
                if task.node not in (None, START):
                    here.append(self._task(moment, child, task, label, number))
            if not ns:
                self.at[moment.key.checkpoint_id] = here
            own += here
        return own

    def _task(
        self, moment: Moment, child: Moment | None, task: Task, label: str, number: str
    ) -> TaskRecord:
        step = None if moment.number is None else moment.number + 1
        node = f"{label} > {task.node}" if label else str(task.node)
        place = f"{number}.{step}" if number else str(step)
        record = TaskRecord(
            self._name(f"{node}, step {place}"),
            str(task.node),
            namespace_kind(moment.key.checkpoint_ns),
            step,
            checkpoint_id=moment.key.checkpoint_id,
        )
        inside = self._inside(moment, task, node, place)
        record.inside = [one.name for one in inside]
        if memory := self._memory(moment, task):
            record.given["memory"] = memory
        reason = self._fill(record, moment, child, task)
        record.asks = self._asks(task, inside)
        if not number and record.output is not None and record.asks:
            self._add_last(record, _answers(moment.writes, of_caller=True))
        record.calls = tools_to_call(record, self._all_inside(inside))
        record.is_tested = not reason
        if reason:
            self.left_out.append(LeftOut(record.name, reason))
        if reason.startswith("a value"):
            record.given, record.output = {}, None
        self.found.append(record)
        return record

    def _name(self, text: str) -> str:
        self._names[text] += 1
        return text if self._names[text] == 1 else f"{text} ({self._names[text]})"

    def _all_inside(self, inside: Sequence[TaskRecord]) -> Iterator[TaskRecord]:
        known = {one.name: one for one in self.found}
        for one in inside:
            yield from self._all_inside([known[name] for name in one.inside])
            yield one

    def _inside(self, moment: Moment, task: Task, label: str, place: str) -> list[TaskRecord]:
        """Add the tasks that a task called, and return them."""
        found: list[TaskRecord] = []
        if label.count(" > ") > _DEEPEST:
            return found
        for ns in called(self._reader, moment.key, task.id, task.node):
            ids = self._reader.ancestry(ns, self._reader.head(ns) or "")
            line = _line(self._reader, ns, ids)
            if is_stateful(ns):
                key = moment.key
                line = [
                    one
                    for one in line
                    if caller_of(one.checkpoint, key.checkpoint_ns) == key.checkpoint_id
                ]
            found += self.read(ns, line, label, place)
        for other in moment.step.others:
            call = call_of(other.path) if is_call(other.path) else None
            if call is not None and task.path in call[0] and other.writes:
                name = self._name(f"{label} > {other.node or 'call'}, call {call[1] + 1}")
                output = output_of(other, moment.body, _read)
                one = TaskRecord(name, other.node or "?", "", None, output=output)
                self.found.append(one)
                found.append(one)
        return found

    def _memory(self, moment: Moment, task: Task) -> Fields:
        """Return the state of each stateful subgraph that a task of the root graph called, from
        before the call.
        """
        found: Fields = {}
        key = moment.key
        for ns in called(self._reader, key, task.id, task.node) if not key.checkpoint_ns else ():
            line = self._reader.ancestry(ns, self._reader.head(ns) or "")
            if not is_stateful(ns):
                continue
            own = [
                one.key.checkpoint_id
                for one in self._reader.checkpoints(ns, line, metadata=True)
                if caller_of(one, "") == key.checkpoint_id
            ]
            before = line[line.index(min(own)) + 1 :] if own else []
            for one in _line(self._reader, ns, before[:1]):
                found[ns] = dict(read_state(self._reader, one).values.items())
        return found

    def _fill(self, record: TaskRecord, moment: Moment, child: Moment | None, task: Task) -> str:
        """Add what a task was given and what it did; returns why it is no test, or `''`."""
        found = read_state(self._reader, moment)
        values: Fields = {name: one for name, one in found.values.items() if name != state.END}
        record.given["state"] = values
        index = sent_index(task.path)
        if index is not None:
            packets = moment.body.values.get(state.SENDS)
            if not isinstance(packets, list) or index >= len(packets):
                return "its Send is not stored with the checkpoint"
            record.given["sent"] = fields_of(sent(packets[index])).get("arg")
        elif START in moment.body.values:
            record.given["input"] = moment.body.values[START]
        went_on = child is not None and child.source == "loop"
        by_hand = any(one.task_path.startswith(UPDATE_PATH) for one in task.writes)
        if child is not None and child.source == "update":
            by_hand |= bool(task.questions) and not _answers(task.writes)
        if task.finished and by_hand:
            if not task.questions:
                return "its result was set by hand"
        elif task.finished:
            record.output = output_of(task, moment.body, _read)
        elif any(one.is_open for one in task.questions):
            pass
        elif task.handled:
            return "an error handler took its error"
        elif task.error is not None:
            record.error = task.error
        elif not went_on:
            return "it did not finish"
        elif not any(one.finished for one in moment.step.runs) and _has_changed(moment, child):
            return "its writes are not stored"
        else:
            record.output = TaskOutput([{}], [])
        if moment.body.v < 4 and record.output is not None:
            record.output = record.output._replace(next=_next_of(moment, child))
        told = record.value()
        return unread_part([told.get(key) for key in ("state", "sent", "input", "writes", "next")])

    def _asks(self, task: Task, inside: Sequence[TaskRecord]) -> list[Fields]:
        """Return what people were asked, with their answers."""
        if asked := [one for each in inside for one in each.asks]:
            return asked
        found: list[Fields] = [{"answer": one} for one in _answers(task.writes)]
        if task.questions:
            question = task.questions[-1]
            if question.is_open or not found:
                found.append({"question": question.value})
            else:
                found[-1] = {"question": question.value, **found[-1]}
        return found

    def _add_last(self, record: TaskRecord, answers: Sequence[Value]) -> None:
        """Add the caller's answer to the last question: a task that asked several times may not
        have stored the last of its answers itself.
        """
        known = {one.name: one for one in self.found}
        inside = [known[name] for name in record.inside]
        if asking := [one for one in inside if one.asks]:
            self._add_last(asking[-1], answers)
            record.asks = [one for each in inside for one in each.asks]
        elif answers and not same(record.asks[-1].get("answer"), answers[-1]):
            last = record.asks.pop()
            if "answer" in last:
                record.asks.append({"answer": last["answer"]})
            asked: Fields = {"question": last["question"]} if "question" in last else {}
            record.asks.append({**asked, "answer": answers[-1]})


def _read(write: Write) -> Value:
    return Cut(None, write.size, "not read") if write.value is None else decode_whole(write.value)


def _answers(writes: Sequence[Write], *, of_caller: bool = False) -> list[Value]:
    """Return the answers among the writes of a task, or the one that the caller gave last."""
    for write in writes:
        if write.channel == RESUME and (write.task_id == NULL_TASK_ID) == of_caller:
            value = _read(write)
            return value if not of_caller and isinstance(value, list) else [value]
    return []


def _has_changed(moment: Moment, child: Moment | None) -> bool:
    return child is not None and child.body.versions != moment.body.versions


def _next_of(moment: Moment, child: Moment | None) -> list[Value] | None:
    """Return the nodes after a step with one task, of a format in which writes do not name them."""
    if child is None or len(moment.step.tasks) != 1 or child.step.next is None:
        return None
    if child.source != "loop" or any(name.startswith("join:") for name in child.body.versions):
        return None
    if any(task.path and sent_index(task.path) is not None for task in child.step.tasks):
        return None
    return [*child.step.next]


def _whole(reader: ThreadReader, line: Sequence[Moment], tasks: _Tasks) -> WholeThreadRecord | None:
    """Return the thread as one test; None if it cannot be one, with the reason in `tasks`."""

    def left_out(reason: str) -> WholeThreadRecord | None:
        tasks.left_out.append(LeftOut("thread", reason))
        return None

    begin = _begin(line)
    if begin is None:
        return left_out("no input is stored that came after all changes by hand and forks")
    found = WholeThreadRecord()
    if begin:
        if any(map(is_stateful, reader.namespaces)):
            return left_out("it was changed by hand or forked, and a subgraph keeps its own state")
        found.before = dict(read_state(reader, line[begin - 1]).values.items())
    for moment, child in pairwise([*line[begin:], None]):
        assert moment is not None  # noqa: S101 - only the last one has no child
        commanded = _commanded(moment)
        if moment.source == "input":
            if START not in moment.body.values:
                return left_out("an input is not stored")
            found.turns.append(TurnRecord(moment.body.values[START]))
        elif commanded is not None:
            if moment.body.v < 4:
                return left_out("a command of an older format is not stored whole")
            if any(task.questions for task in moment.step.tasks):
                return left_out("a command changed the state along with an answer")
            found.turns.append(TurnRecord(commanded))
        turn = found.turns[-1]
        for task in tasks.at[moment.key.checkpoint_id]:
            turn.asks += task.asks
        turn.failures += sum(one.error is not None and one.finished for one in moment.step.tasks)
        if child is not None and child.source == "loop":
            _add_step(found, turn, moment, child)
    head = line[-1]
    found.state = dict(read_state(reader, head).values.items())
    found.questions = [one.value for one in head.step.open_questions]
    found.failed = head.status is Status.ERROR
    if head.status is Status.PENDING:
        found.stopped = sorted({*(head.step.waiting or ())})
    told = found.value()
    if reason := unread_part([told["state"], told["turns"], told.get("before")]):
        return left_out(reason)
    return found


def _begin(line: Sequence[Moment]) -> int | None:
    """Return the place of the first input behind which nothing but runs changed the state; None if
    there is none.
    """
    changes = [place for place, one in enumerate(line) if one.source in ("update", "fork")]
    begin = max(changes, default=-1) + 1
    for place, one in enumerate(line[begin:], begin):
        is_first = one.checkpoint.parent_checkpoint_id is None
        if one.source == "input" and (place or is_first):
            return place
    return None


def _add_step(found: WholeThreadRecord, turn: TurnRecord, moment: Moment, child: Moment) -> None:
    """Add the nodes of a step that ended."""
    nodes = moment.step.next
    if nodes is None or child.number is None or moment.number is None:
        found.steps = None
    elif child.number != moment.number + 1:
        found.steps = None  # with durability="exit"
    elif nodes != (START,):
        turn.steps += 1
        if found.steps is not None:
            found.steps.append(", ".join(sorted(nodes)))


def _commanded(moment: Moment) -> Value:
    """Return the Command with which a run began at a checkpoint; None if none did."""
    update: Fields = {}
    goto: list[Value] = []
    for write in moment.writes:
        if write.task_id != NULL_TASK_ID or write.channel in CONTROL:
            continue
        if write.channel == state.SENDS:
            goto.append(_read(write))
        elif write.channel.startswith("branch:to:"):
            goto.append(write.channel.removeprefix("branch:to:"))
        elif state.is_state(write.channel, moment.body):
            update[write.channel] = _read(write)
    if not update and not goto:
        return None
    fields: Fields = {"goto": goto}
    return Tagged("langgraph.types.Command", {"update": update, **fields} if update else fields)
