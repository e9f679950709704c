"""The alerts and the dashboard in `share` use what `ckpt metrics` prints."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kit.command import ROOT, ckpt
from tests.kit.terminal_shell import check_installed

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
