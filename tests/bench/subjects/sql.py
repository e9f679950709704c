"""Questions in SQL, beside the same over the official history of every thread."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from tests.bench.asked_history import TOOL
from tests.bench.declared import Asked, Beside, Made, MakesCommand, Measurement, Subject, ckpt
from tests.support import ROOT

CHANNELS = "SELECT channel, sum(bytes) AS bytes FROM writes GROUP BY channel ORDER BY bytes DESC"
TOKENS = """
    SELECT concat_ws(' ', model, ts::DATE) AS kind, sum(total) AS tokens FROM usage GROUP BY kind
"""
CALLED = f"""
    SELECT DISTINCT thread_id FROM writes
    WHERE channel = 'messages' AND value::VARCHAR LIKE '%"name":"{TOOL}"%' ORDER BY thread_id
"""


def _official(question: str) -> MakesCommand:
    launch = f"import sys; sys.path.insert(0, {str(ROOT)!r}); " + (
        "from tests.bench.asked_history import main; main(*sys.argv[1:])"
    )
    return lambda made: [sys.executable, "-c", launch, made.url, question]


def _answered(made: Made, question: str) -> Any:
    command = [str(word) for word in _official(question)(made)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(found.stdout.splitlines()[0])


def _bytes(made: Made, ask: Asked) -> None:
    theirs = _answered(made, "bytes_of_channels")
    ours = {row["channel"]: row["bytes"] for row in ask("sql", CHANNELS)}
    assert {name: ours[name] for name in theirs} == theirs


def _tokens(made: Made, ask: Asked) -> None:
    theirs = _answered(made, "tokens_by_day")
    assert {row["kind"]: row["tokens"] for row in ask("--utc", "sql", TOKENS)} == theirs


def _called(made: Made, ask: Asked) -> None:
    ours = [row["thread_id"] for row in ask("sql", CALLED)]
    assert ours == _answered(made, "threads_that_called")


def _asked(
    what: str, query: str, question: str, check: Callable[[Made, Asked], None]
) -> Measurement:
    return Measurement(
        what=f"sql: {what}, {{checkpoints}} checkpoints",
        store="sqlite grown 0",
        ours=ckpt("--utc", "sql", query),
        beside=[Beside("over get_state_history alone", _official(question), 1, tells=True)],
        check=check,
        rounds=1,
    )


SUBJECT = Subject(
    "sql",
    "questions in SQL",
    [
        _asked("bytes of channels", CHANNELS, "bytes_of_channels", _bytes),
        _asked("tokens by model and day", TOKENS, "tokens_by_day", _tokens),
        _asked("threads that ever called a tool", CALLED, "threads_that_called", _called),
    ],
)
