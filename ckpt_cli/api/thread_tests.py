"""Writes threads as tests for pytest, and runs these where the application runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from ckpt_backends import shell
from ckpt_backends.codec.memo import remembering
from ckpt_backends.errors import PartlyDone, Refused, StoreUnavailable, UsageError, reason_of
from ckpt_backends.files import writing
from ckpt_cli.core.secrets import IgnoredSecrets, Scanner, SecretFinding
from ckpt_cli.core.thread_tests import (
    Fields,
    LeftOut,
    SecretInTest,
    redacted,
    secrets_in,
    spelled,
    with_prompts,
    without_secrets,
)
from ckpt_cli.core.values import format_path
from ckpt_cli.queries.thread_tests import recorded_thread
from ckpt_cli.reading.store import is_redacted
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.thread_tests import slug, source, spelled_json, test_names

NOTES = "CKPT_TEST_NOTES"
"""Environment variable of `ckpt_cli.testing`: the file to which tests add their prompts."""
_GRAPH = re.compile(r"[^\s:]+:[A-Za-z_][\w.]*")
_LONGEST = 80
"""Characters of a thread's id in the name of a file."""
_PLACES = 10
"""Number of credentials whose places an error names."""
_FIRST_LINE = 200


class MarkedTest(NamedTuple):
    """A test that is expected to fail."""

    test: str
    reason: str


@dataclass(slots=True)
class WrittenTests:
    """A thread whose tests were written."""

    thread_id: str
    path: Path
    form: Mapping[str, Any]
    tested: Sequence[str]
    left_out: list[LeftOut]
    failing: Sequence[str]
    """Tests of tasks that failed when the thread was recorded."""
    marked: list[MarkedTest] = field(default_factory=list)

    @property
    def data_path(self) -> Path:
        """The JSON file beside the test file."""
        return self.path.with_suffix(".json")

    @property
    def names(self) -> Mapping[str, str]:
        """Test function to task, `thread` for the whole thread."""
        return test_names(self.form, self.tested)


class TestedThread(NamedTuple):
    """What is written of a thread, before it is."""

    form: dict[str, Any]
    tested: Sequence[str]
    left_out: list[LeftOut]


class ThreadTests:
    """Writes the tests of threads into one folder."""

    def __init__(
        self,
        folder: Path,
        graph: str,
        *,
        ignored: Sequence[IgnoredSecrets] = (),
        mask: bool = False,
        replace: bool = False,
    ) -> None:
        """`graph` is the place of the graph, `mask` replaces credentials by markers.

        With `replace`, files of the same names are written over. Raises `UsageError` if `graph`
        names no place, and `MissingDependency` without the rules for credentials.
        """
        if _GRAPH.fullmatch(graph) is None:
            raise UsageError(
                f"'{graph}' names no graph",
                hint="write --graph MODULE:NAME, such as app.graph:build",
            )
        self._folder, self._graph, self._mask, self._replace = folder, graph, mask, replace
        self._ignored = ignored
        self._scanner = Scanner()
        self._names: set[str] = set()

    def of(self, reader: ThreadReader, checkpoint_id: str | None = None) -> TestedThread:
        """Return what is written of a thread; with `checkpoint_id`, only of the tasks behind that
        checkpoint.

        Raises `Refused` if it holds credentials, and what `recorded_thread` raises.
        """
        with remembering():  # equal messages are one object, which is searched once
            found = recorded_thread(reader)
        if checkpoint_id is not None:
            found = found.behind(checkpoint_id)
        record = found.value()
        if is_redacted(reader.store):
            record = redacted(record)
        if self._mask:
            record = without_secrets(record, self._scanner)
        elif secrets := self._secrets(record):
            raise _with_secrets(self._scanner.masked(reader.thread_id), record, secrets)
        return TestedThread(spelled(record), [one.name for one in found.tested], found.left_out)

    def write(self, reader: ThreadReader) -> WrittenTests:
        """Write the tests of a thread.

        Raises what `of` raises, `Refused` if a file is there, and `StoreUnavailable` if it cannot
        be written.
        """
        form, tested, left_out = self.of(reader)
        path = self._folder / f"{self._name(str(form['thread']))}.py"
        written = WrittenTests(str(form["thread"]), path, form, tested, left_out, [])
        failed = {one["name"] for one in form["tasks"] if "error" in one}
        written.failing = [name for name, task in written.names.items() if task in failed]
        if not self._replace:
            for one in (path, written.data_path):
                if os.path.lexists(one):
                    raise Refused(
                        f"'{one}' exists", hint="--force writes over it; or use another --to"
                    )
        self._put(written, replace=self._replace)
        return written

    def _put(self, written: WrittenTests, *, replace: bool) -> None:
        marks = {one.test: one.reason for one in written.marked}
        name = written.data_path.name
        code = source(written.form, written.tested, self._graph, name, marks)
        texts = {written.data_path: f"{spelled_json(written.form)}\n", written.path: code}
        for path, text in texts.items():
            try:
                with writing(path, replace=replace) as file:
                    file.write(text.encode("utf-8", "backslashreplace"))
            except OSError as error:
                raise StoreUnavailable(f"cannot write '{path}': {reason_of(error)}") from error

    def _name(self, thread_id: str) -> str:
        """Return the name of a test file, without its ending."""
        name = wanted = f"test_{slug(thread_id)[:_LONGEST]}"
        number = 1
        while name in self._names:
            number += 1
            name = f"{wanted}_{number}"
        self._names.add(name)
        return name

    def _secrets(self, record: Fields) -> list[SecretInTest]:
        """Return the credentials in a record, without those that the profile ignores."""
        thread_id = str(record["thread"])
        found = []
        for one in secrets_in(record, self._scanner):
            path = one.path[3:] if one.path[:1] == ("tasks",) else one.path[2:]
            finding = SecretFinding("value", one.kind, path, thread_id=thread_id)
            if not any(entry.fits(finding) for entry in self._ignored):
                found.append(one)
        return found

    def check(self, written: Sequence[WrittenTests], python: Path | None, *, note: bool) -> None:
        """Run all tests twice, by pytest in a process of `python`, and write the files again: with
        marks at the tests that did not pass both times, and with `note` with what they asked the
        models.

        A test of a task that failed when it was recorded gets no mark. Raises `UsageError` if there
        is no such Python, and `PartlyDone` if no test passes.
        """
        program, paths = _program(python), [one.path for one in written]
        first = run_tests(program, paths)
        if not any(one.passed for one in first.results.values()):
            why = next((one.message for one in first.results.values()), first.output)
            raise PartlyDone(
                f"the tests are written, but none passes: {_first_line(why)}",
                hint=f"run them: `{shell.command(program, '-m', 'pytest', str(self._folder))}`",
            )
        runs = [first, run_tests(program, paths)]
        outcomes: list[Outcome] = []
        for one in written:
            for name, task in one.names.items():
                both = [run.results.get((one.path.stem, name), NOT_RUN) for run in runs]
                outcomes.append(Outcome(one, name, task, *both))
        for one in written:
            own = [outcome for outcome in outcomes if outcome.written is one]
            one.marked = [
                MarkedTest(outcome.name, outcome.reason)
                for outcome in own
                if outcome.reason and outcome.name not in one.failing
            ]
            if note:
                passed = {outcome.task for outcome in own if outcome.passed}
                one.form = self._noted(one, runs, passed)
            self._put(one, replace=True)

    def _noted(
        self, written: WrittenTests, runs: Sequence[TestRun], passed: set[str]
    ) -> Mapping[str, Any]:
        """Return what is written with the prompts that were the same in both runs."""
        notes = {}
        for task in passed:
            first, second = (run.prompts.get((written.data_path.name, task)) for run in runs)
            if not first or _without_ids(first) != _without_ids(second):
                continue
            if any(True for _ in self._scanner.parts(first)):
                written.left_out.append(LeftOut(f"prompts of {task}", "they hold a credential"))
            else:
                notes[task] = first
        return with_prompts(written.form, notes)


def _with_secrets(thread_id: str, record: Fields, found: Sequence[SecretInTest]) -> Refused:
    tasks = record["tasks"]
    places = []
    for one in found[:_PLACES]:
        where, path = "thread", one.path
        if path[:1] == ("tasks",) and isinstance(tasks, list) and isinstance(path[1], int):
            task = tasks[path[1]]
            where, path = str(task["name"]) if isinstance(task, dict) else "?", path[2:]
        places.append(f"{where}: {format_path(path)} ({one.kind})")
    more = f" and {len(found) - _PLACES} more" if len(found) > _PLACES else ""
    number = "a credential" if len(found) == 1 else f"{len(found)} credentials"
    return Refused(
        f"thread '{thread_id}' holds {number}: {'; '.join(places)}{more}",
        hint="--mask-secrets writes markers in their place",
    )


# Runs of pytest.


class TestResult(NamedTuple):
    """How one test ended."""

    passed: bool
    message: str


NOT_RUN = TestResult(False, "it did not run")


@dataclass(slots=True)
class TestRun:
    """What one run of pytest told."""

    results: dict[tuple[str, str], TestResult]
    """(test file without its ending, test function) to how it ended."""
    prompts: dict[tuple[str, str], Any]
    """(data file, task) to the prompts that its models got."""
    output: str


@dataclass(slots=True)
class Outcome:
    """How a test ended in both runs."""

    written: WrittenTests
    name: str
    task: str
    one: TestResult
    other: TestResult

    @property
    def passed(self) -> bool:
        """Whether it passed both times."""
        return self.one.passed and self.other.passed

    @property
    def first(self) -> str:
        """The message of the first failure."""
        return self.one.message or self.other.message

    @property
    def reason(self) -> str:
        """Why it cannot be relied on, in a sentence; `''` if it passed both times."""
        if self.passed:
            return ""
        line = _first_line(self.first)
        if network := re.search(r"the graph uses the network: \S+", self.first):
            return network[0]
        if "once more than recorded" in self.first:
            return f"the thread does not hold what a model answered: {line}"
        if self.one.passed or self.other.passed:
            return f"it does not always pass: {line}"
        if self.one.message != self.other.message:
            return f"it differs from run to run, as with the clock or random numbers: {line}"
        return f"it does not give what was recorded: {line}"


def run_tests(python: str, paths: Sequence[Path]) -> TestRun:
    """Run test files by pytest in another process. Its settings are those of the working folder."""
    with tempfile.TemporaryDirectory() as folder:
        report, notes = Path(folder, "report.xml"), Path(folder, "notes")
        words = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        done = subprocess.run(  # noqa: S603 - the user names the program and the graph
            [*words, *map(str, paths)],
            env={**os.environ, NOTES: str(notes)},
            capture_output=True,
            text=True,
            check=False,
        )
        if not report.exists():
            return TestRun({}, {}, done.stderr.strip() or done.stdout.strip())
        results = dict(_results(report))
        lines = notes.read_text("utf-8").splitlines() if notes.exists() else []
        prompts = {(file, task): asked for file, task, asked in map(json.loads, lines)}
        return TestRun(results, prompts, done.stdout)


def _results(report: Path) -> Iterator[tuple[tuple[str, str], TestResult]]:
    """Yield how each test of a report of pytest ended."""
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - pytest wrote it
        module = case.get("classname", "").rpartition(".")[2]
        bad = [one for kind in ("failure", "error") if (one := case.find(kind)) is not None]
        text = "\n".join(f"{one.get('message', '')}" for one in bad)
        yield (module, case.get("name", "")), TestResult(not bad, text)


def _program(python: Path | None) -> str:
    found = shutil.which(str(python) if python is not None else "python")
    if found is None:
        raise UsageError(
            f"there is no program '{python or 'python'}'",
            hint="name the Python that runs the application: --python PATH",
        )
    return found


def _first_line(text: str) -> str:
    lines = [one.strip() for one in text.strip().splitlines() if one.strip()]
    return lines[0][:_FIRST_LINE] if lines else "no message"


def _without_ids(prompts: Any) -> Any:
    """Return prompts without what differs between two runs: ids and times."""
    text = json.dumps(prompts, sort_keys=True)
    text = re.sub(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", "ID", text)
    return re.sub(r"\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?", "TIME", text)
