"""`metrics` prints what Prometheus reads, with the numbers of the other commands."""

import json
import re
import shutil
import stat
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import prometheus_client.openmetrics.parser as openmetrics
import prometheus_client.parser as older
import pytest

from tests.kit.command import ROOT, ckpt
from tests.kit.harness.kaflow import KaflowHarness
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.opening import empty_store
from tests.kit.planting.planters import fill
from tests.kit.terminal import check_installed

THREADS = frozenset({"chat", "error", "interrupt-parallel", "interrupt-nested", "subgraph"})
READERS: list[Any] = [openmetrics, older]


def parsed(text: str) -> dict[tuple[str, str | None], float]:
    """Return the samples by name and status, as both of Prometheus's parsers read them."""
    assert text.endswith("# EOF\n")
    found = [
        {
            (one.name, one.labels.get("status")): one.value
            for family in module.text_string_to_metric_families(text)
            for one in family.samples
        }
        for module in READERS
    ]
    assert found[0] == found[1]
    return found[0]


def test_the_numbers_are_those_of_commands(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    with empty_store(SqliteHarness, request, tmp_path) as harness:
        fill(harness, THREADS)
        url = harness.url
        printed = ckpt("-s", url, "metrics", code=0)
        found = parsed(printed.out)
        listed: list[Any] = ckpt("-s", url, "threads", "list", "--all", "--long", "-o", "json").json
        asked = ckpt("-s", url, "interrupts", "-o", "json").json
        failed = ckpt("-s", url, "errors", "-o", "json").json
        assert found["ckpt_up", None] == 1
        assert found["ckpt_threads", None] == len(listed) == len(THREADS)
        by_status = {status: n for (name, status), n in found.items() if status and n}
        assert by_status == Counter(one["status"] for one in listed)
        assert found["ckpt_checkpoints", None] == sum(one["checkpoints"] for one in listed)
        assert found["ckpt_open_questions", None] == len(asked) > 1
        assert 0 < found["ckpt_oldest_question_age_seconds", None] < 3600
        assert found["ckpt_failed_tasks", None] == len(failed) == 1
        in_json = ckpt("-s", url, "metrics", "--since", "2000-01-01", "-o", "json").json
        assert in_json["newest_at"] == max(one["last_at"] for one in listed)
        assert in_json["oldest_question_at"] == min(one["since"] for one in asked)
        assert in_json["failed_tasks"] == 1
        assert {name: n for name, n in in_json["statuses"].items() if n} == by_status
        later = ckpt("-s", url, "metrics", "--since", "2999-01-01", "-o", "json").json
        assert later["failed_tasks"] == 0
        assert not any(thread_id in printed.out for thread_id in ("interrupt-", "subgraph"))


def test_what_is_not_stored_or_not_read_is_left_out(
    request: pytest.FixtureRequest, tmp_path: Path, sample: Path
) -> None:
    fast = parsed(ckpt("-s", sample, "metrics", "--fast").out)
    assert fast["ckpt_threads", None] == 8
    assert fast["ckpt_open_questions", None] == fast["ckpt_failed_tasks", None] == 1
    assert not any(status for _, status in fast)
    with empty_store(KaflowHarness, request, tmp_path) as harness:
        fill(harness, frozenset({"chat"}))
        found = parsed(ckpt("-s", harness.url, "metrics").out)
    names = {name for name, _ in found}
    assert "ckpt_threads_by_status" in names
    assert not {"ckpt_open_questions", "ckpt_failed_tasks"} & names


def test_the_label_is_escaped_and_a_file_is_replaced_at_once(sample: Path, tmp_path: Path) -> None:
    out = tmp_path / "ckpt.prom"
    out.write_text("old")
    ckpt("-s", sample, "metrics", "--out", out, code=0, out="")
    assert parsed(out.read_text())["ckpt_up", None] == 1
    assert stat.S_IMODE(out.stat().st_mode) == 0o644
    assert sorted(one.name for one in tmp_path.iterdir() if "ckpt" in one.name) == [out.name]
    ckpt("-s", sample, "metrics", "--out", out, "-o", "json", code=2)
    ckpt("-s", sample, "metrics", "--out", tmp_path / "no" / "file", code=4)
    # A store that cannot be read is down.
    url = "postgresql://me:hunter2@127.0.0.1:1/db"
    for words in ([], ["--out", str(out)]):
        down = ckpt("-s", url, "metrics", *words, code=4)
        text = out.read_text() if words else down.out
        assert parsed(text) == {("ckpt_up", None): 0}
        assert "hunter2" not in text + down.err
    ckpt("-s", url, "metrics", "-o", "json", code=4, out="")
    # The label of the store is escaped.
    odd = sample.with_name('a "b" \\ c\n\x1b[2J.db')
    sample.rename(odd)
    printed = ckpt("-s", odd, "metrics")
    assert parsed(printed.out)["ckpt_up", None] == 1
    assert "\x1b" not in printed.out
    (labels,) = {
        one.labels["store"]
        for family in READERS[0].text_string_to_metric_families(printed.out)
        for one in family.samples
    }
    assert labels.endswith('a "b" \\ c\\n\\x1b[2J.db')


# The alerts and the dashboard in `share`


RULES = ROOT / "share" / "prometheus" / "ckpt.rules.yml"
DASHBOARD = ROOT / "share" / "grafana" / "ckpt.json"
CASES = Path(__file__).with_name("alerts.yml")


def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    check_installed("promtool")
    rules = shutil.copy(RULES, tmp_path)
    cases = tmp_path / CASES.name
    cases.write_text(f"rule_files: [{Path(rules).name}]\n{CASES.read_text()}")
    for words in (["check", "rules", str(rules)], ["test", "rules", str(cases)]):
        done = subprocess.run(
            ["promtool", *words], check=False, capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 0, done.stdout + done.stderr
    named = set(re.findall(r"alert: (\w+)", RULES.read_text()))
    assert set(re.findall(r"alertname: (\w+)", CASES.read_text())) == named


@pytest.mark.parametrize("file", [RULES, DASHBOARD], ids=["alerts", "dashboard"])
def test_they_name_only_metrics_that_are_printed(sample: Path, file: Path) -> None:
    printed = set(re.findall(r"^# TYPE (\w+)", ckpt("-s", sample, "metrics").out, re.MULTILINE))
    if file == DASHBOARD:
        found = json.loads(file.read_text())
        asked = "\n".join(one["expr"] for panel in found["panels"] for one in panel["targets"])
        assert len({panel["id"] for panel in found["panels"]}) == len(found["panels"])
    else:
        asked = file.read_text()
    named = set(re.findall(r"\bckpt_\w+", asked))
    assert named
    assert named <= printed
