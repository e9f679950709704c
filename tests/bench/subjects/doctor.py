"""A quick look for faults, beside queries for the same rows; and a deep one."""

from __future__ import annotations

from types import ModuleType

from tests.bench import raw, raw_postgres
from tests.bench.declared import Asked, Beside, Made, Measurement, Rate, Subject, ckpt, python


def _healthy(made: Made, ask: Asked) -> None:
    found = ask("doctor")
    assert found["complete"]
    assert found["findings"] == []
    assert found["checked"]["threads"] == int(made.facts["threads"])
    assert found["checked"]["checkpoints"] == int(made.facts["checkpoints"])


def _quick(store: str, engine: ModuleType) -> Measurement:
    return Measurement(
        what="doctor, {checkpoints} checkpoints",
        store=store,
        ours=ckpt("doctor"),
        beside=[
            Beside("keys and heads, raw", python(engine.KEYS_AND_HEADS), 2),
            Beside("the same, keys compared", python(engine.COMPARED_KEYS_AND_HEADS), 2),
        ],
        check=_healthy,
        rounds=1,
    )


SUBJECT = Subject(
    "doctor",
    "search for faults",
    [
        _quick("sqlite long", raw),
        _quick("postgres", raw_postgres),
        *(
            Measurement(
                what="doctor, {threads} threads", store=store, ours=ckpt("doctor"), rounds=1
            )
            for store in ("mysql", "redis", "mongodb", "dynamodb")
        ),
        Measurement(
            what="doctor --deep, {checkpoints} checkpoints",
            store="sqlite states",
            ours=ckpt("doctor", "--deep"),
            rate=Rate("checkpoints", 2000),
            rounds=1,
        ),
    ],
)
