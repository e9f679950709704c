"""Replaying and listing a long thread, beside the official history of the same thread."""

from __future__ import annotations

from tests.bench import raw, raw_postgres
from tests.bench.declared import Asked, Beside, Made, Measurement, Rate, Subject, ckpt, python
from tests.bench.made_servers import on_postgres
from tests.bench.made_sqlite import rows
from tests.bench.make_steps import KINDS
from tests.support import ROOT

_IDS = "SELECT checkpoint_id FROM checkpoints WHERE thread_id = '{}' ORDER BY 1 DESC"


def _official(kind: str, most: float) -> Beside:
    """Return the official history, without what importing LangGraph takes."""
    whole = python(raw.OFFICIAL_HISTORY, str(ROOT), kind)
    return Beside("get_state_history alone", whole, most, tells=True)


def _verified(kind: str) -> Measurement:
    def check(made: Made, ask: Asked) -> None:
        found = ask("replay", kind, "--verify")
        assert found["match"] == found["transitions"] >= int(made.facts["steps"])

    return Measurement(
        what=f"replay --verify, {{steps}} checkpoints, {kind}",
        store="sqlite states",
        ours=ckpt("replay", kind, "--verify", "-o", "json"),
        beside=[_official(kind, 1)],
        rate=Rate("steps", 2000),
        check=check,
        rounds=3,
    )


def _listed(kind: str) -> Measurement:
    def check(made: Made, ask: Asked) -> None:
        ids = [one for (one,) in rows(made.url, _IDS.format(kind))]
        assert [one["checkpoint_id"] for one in ask("history", kind)] == ids

    return Measurement(
        what=f"history, {{steps}} checkpoints, {kind}",
        store="sqlite states",
        ours=ckpt("history", kind, "-o", "ndjson"),
        beside=[_official(kind, 0.5)],
        check=check,
        rounds=3,
    )


def _deep(made: Made, ask: Asked) -> None:
    ids = [one for (one,) in on_postgres(made.url, _IDS.format("deep"))]
    assert [one["checkpoint_id"] for one in ask("history", "deep")] == ids


REPLAY = Subject("replay", "replay --verify", [_verified(kind) for kind in KINDS])
HISTORY = Subject(
    "history",
    "history of a thread",
    [
        *(_listed(kind) for kind in ("carried", "blob", "messages")),
        Measurement(
            what="history, {deep} checkpoints",
            store="sqlite deep",
            ours=ckpt("history", "straight", "-o", "ndjson"),
            rounds=1,
        ),
        Measurement(
            what="history, {deep} checkpoints",
            store="postgres",
            ours=ckpt("history", "deep", "-o", "ndjson"),
            beside=[Beside("official list", python(raw_postgres.OFFICIAL_HISTORY, "deep"), 0.5)],
            check=_deep,
            rounds=1,
        ),
    ],
)
