"""A plan may be damaged or come from a stranger: it is refused, or it is only what it shows."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.command import SAMPLE, ckpt

KYOTO = "trip-to-kyoto"
REFUSED = {2, 4, 6}
"""The codes of a plan that is not used."""
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
documents = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture
def plan(sample: Path, tmp_path: Path) -> Path:
    found = tmp_path / "plan.ndjson"
    assert ckpt("-s", sample, "rollback", KYOTO, "--steps", "2", "--plan-out", found).code == 0
    return found


def change(plan: Path, alter: Callable[[dict[str, Any]], Any]) -> None:
    """Change the header, and leave a plan that is not damaged otherwise."""
    head, *lines = plan.read_text().splitlines()
    record = json.loads(head)
    alter(record)
    plan.write_text("\n".join([json.dumps(record, separators=(",", ":")), *lines]) + "\n")
    reseal(plan)


def reseal(plan: Path) -> None:
    from hashlib import sha256

    *lines, _ = plan.read_bytes().splitlines(keepends=True)
    end = {"facts": len(lines) - 1, "sha256": sha256(b"".join(lines)).hexdigest()}
    plan.write_bytes(b"".join(lines) + json.dumps(end, separators=(",", ":")).encode() + b"\n")


def refused(sample: Path, plan: Path, *words: str) -> str:
    before = sample.read_bytes()
    answer = ckpt("-s", sample, "apply", plan, "--yes", *words)
    assert answer.code in REFUSED, answer.err
    assert sample.read_bytes() == before
    return answer.err


def test_a_plan_that_is_cut_off_or_edited_is_not_carried_out(sample: Path, plan: Path) -> None:
    text = plan.read_bytes()
    lines = text.splitlines(keepends=True)
    edited = text.replace(b'"steps":2', b'"steps":3')
    for damaged in (b"", text[:-2], edited, text + lines[1], lines[0] + lines[2], b"[" * 100_000):
        plan.write_bytes(damaged)
        refused(sample, plan)
    plan.write_bytes(text)
    assert ckpt("-s", sample, "apply", plan, "--yes").code == 0


def test_other_options_give_another_plan_and_no_variable_is_expanded(
    sample: Path, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(plan, lambda head: head["options"].update(steps=3))
    assert "changed since" in refused(sample, plan)
    monkeypatch.setenv("NAME", KYOTO)
    change(plan, lambda head: head["options"].update(thread="${NAME}"))
    assert "${NAME}" in refused(sample, plan)
    change(plan, lambda head: head.pop("seed"))
    refused(sample, plan)


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        *(("", "action", one) for one in ("purge", "threads list", "apply")),
        ("", "kind", "removal"),
        *(("", "made_at", one) for one in ("2026-01-01", "0001-01-01T00:00:00Z")),
        ("", "options", []),
        ("", "again", ["new_key_file"]),
        ("", "seed", None),
        ("options", "steps", {}),
        ("options", "thread", [["a"]]),
        ("options", "yes", True),
        *(("options", one, "/tmp/x") for one in ("plan_out", "audit")),
        ("options", "aes_key_file", "/etc/hostname"),
        ("options", "store", "postgresql://stranger/db"),
        ("options", "nothing", 1),
    ],
)
def test_a_header_that_no_command_writes_is_refused(
    sample: Path, plan: Path, place: str, name: str, value: Any
) -> None:
    change(plan, lambda head: (head[place] if place else head).update({name: value}))
    refused(sample, plan)


def test_a_plan_is_for_its_store_only(sample: Path, plan: Path, tmp_path: Path) -> None:
    text = plan.read_bytes()
    for path in ("postgresql://stranger.invalid/db", "agent.db", "/x?layout=y", "/x\0"):
        change(plan, lambda head, path=path: head.update(path=path))  # type: ignore[misc]
        answer = ckpt("apply", plan, "--yes")
        assert (answer.code, "no store given" in answer.err) == (2, True), answer.err
    assert ckpt("-s", sample, "copy", KYOTO, "--to", tmp_path / "b.db", "--create",
                "--plan-out", plan).code == 0  # fmt: skip
    change(plan, lambda head: head["target"].update(path="", store="redis://stranger.invalid"))
    assert "named again" in refused(sample, plan)
    assert "made for the store" in refused(sample, plan, "--to", str(tmp_path / "c.db"))
    plan.write_bytes(text)
    other = tmp_path / "other.db"
    other.write_bytes(SAMPLE.read_bytes())
    before = other.read_bytes()
    answer = ckpt("-s", other, "apply", plan, "--yes")
    assert (answer.code, other.read_bytes()) == (2, before)
    assert "it was made for the store" in answer.err
    link = tmp_path / "link.db"
    link.symlink_to(sample)
    assert ckpt("-s", link, "apply", plan, "--yes").code == 0


def test_hostile_plans_are_used_or_refused(sample: Path, plan: Path) -> None:
    lines = [json.loads(line) for line in plan.read_text().splitlines()]
    before = sample.read_bytes()

    def check(drawn: tuple[int, int, Any]) -> None:
        number, place, value = drawn
        changed = [dict(line) for line in lines]
        line = changed[number % (len(lines) - 1)]
        line[sorted(line)[place % len(line)]] = value
        plan.write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in changed))
        reseal(plan)
        ckpt("-s", sample, "apply", plan, "--dry-run").ends_cleanly(0, 2, 3, 4, 5, 6)
        assert sample.read_bytes() == before

    given(st.tuples(st.integers(0, 99), st.integers(0, 99), documents))(check)()
