"""`--summary` prints one line with the numbers of the whole answer, and no id."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.doctor.findings import Severity
from ckpt_cli.core.retention import PurgeReport, PurgeSums, RemovalSum
from ckpt_cli.core.tasks import Question
from ckpt_cli.queries.incidents import Failure, Waiting
from ckpt_cli.render.purge import PURGE_SUMMARY, PurgeSummary
from ckpt_cli.render.summaries import doctor_summary, errors_summary
from tests.kit.cases import cases
from tests.kit.command import ckpt

NOW = datetime(2026, 11, 23, 9, 30, tzinfo=UTC)
MIB = 1 << 20


def test_a_purge_is_summed_up() -> None:
    sums = PurgeSums(removed=RemovalSum(9312, 120_000, 0, 0, 1229 * MIB))
    kept = [(str(n), "a step is pending (to remove: --include-pending)") for n in range(1688)]
    report = PurgeReport(skipped={"a": "changed meanwhile", "b": "changed meanwhile"}, sums=sums)
    assert PurgeSummary(sums, kept, report, 14.2).text() == (
        "purge: removed 9,312 threads (120,000 checkpoints, 1.2 GiB) in 14 s,"
        " kept 1,688 (a step is pending), skipped 2 (changed meanwhile)"
    )
    sums = PurgeSums(pruned=RemovalSum(1, 1, 0, 0, 10))
    report = PurgeReport(left=3, stopped="the time is up", sums=sums)
    assert PurgeSummary(sums, [], report, 3725).text() == (
        "purge: pruned 1 thread (1 checkpoint, 10 B) in 1 h 2 min, 3 left: the time is up"
    )
    found = PURGE_SUMMARY.record(PurgeSummary(PurgeSums(), [], PurgeReport(), None))
    assert found["summary"] == "purge: would remove nothing"


def test_findings_are_summed_up() -> None:
    codes = Counter({"value-missing": 3, "step-uncommitted": 12})
    counts = {Severity.ERROR: 3, Severity.WARNING: 12}
    found = doctor_summary(counts, codes, 10_000, 1)
    assert found["summary"] == (
        "doctor: 3 errors, 12 warnings in 10,000 threads: step-uncommitted 12, value-missing 3;"
        " could not check 1 thread"
    )
    assert doctor_summary({}, Counter(), 1, 0)["summary"] == "doctor: no findings in 1 thread"


QUESTION = Question(None, "task", "ask", "Go on?", answered=False)


def failure(thread_id: str, error: str, at: datetime | None) -> Failure:
    key = CheckpointKey(thread_id, "", "1")
    return Failure(key, None, ("a",), error, at, retried=False, handled=False, blocks=True)


def test_failed_tasks_and_questions_are_summed_up() -> None:
    early = NOW - timedelta(hours=7, minutes=16)
    failures = [
        failure("one", "TimeoutError('no answer')", NOW),
        failure("one", "app.errors.TimeoutError: lost", None),
        failure("two", "KeyError('x')", early),
        failure("three", "\x1b[2J went wrong", early),
    ]
    asked = [
        Waiting(CheckpointKey(name, "", "1"), QUESTION, at)
        for name, at in (("one", NOW), ("four", NOW - timedelta(days=3)), ("four", None))
    ]
    found = errors_summary(failures, asked, NOW, UTC)
    assert found["summary"] == (
        "errors: 3 threads failed since 02:14: TimeoutError 2, KeyError 1, other 1;"
        " 2 wait for a person, the oldest for 3d"
    )
    assert (found["failures"], found["questions"]) == (4, 3)
    last_year = [failure("one", "redacted, 4 characters", NOW - timedelta(days=366))]
    text = errors_summary(last_year, [], NOW, UTC)["summary"]
    assert text == "errors: 1 thread failed since Nov 22 2025 09:30"
    assert errors_summary([], [], NOW, UTC)["summary"] == "errors: none"


@cases(
    "words",
    *(["errors", "--exit-code"], ["doctor", "--deep", "--strict"]),
    ["purge", "--older-than", "1h", "--yes"],
    ids=" ".join,
)
def test_it_is_one_line_without_ids_and_the_same_exit_code(words: list[str], sample: Path) -> None:
    listed = ckpt("-s", sample, "threads", "list", "--all", "-o", "json").json
    again = sample.with_name("again.db")
    again.write_bytes(sample.read_bytes())
    told, long = ckpt("-s", sample, *words, "--summary"), ckpt("-s", again, *words)
    assert told.code == long.code
    assert told.out.startswith(f"{words[0]}: ")
    assert told.out.count("\n") == 1
    assert not [one["thread_id"] for one in listed if one["thread_id"] in told.out + told.err]
    in_json = ckpt("-s", sample, *words, "--summary", "-o", "json")
    assert in_json.json["summary"].startswith(f"{words[0]}: ")
