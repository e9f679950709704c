"""Questions that the rows of writes can answer, and filters by keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from tests.bench import raw, raw_keys, raw_mysql, raw_postgres, raw_redis
from tests.bench.declared import Asked, Beside, Made, Measurement, Subject, ckpt, python
from tests.bench.made_servers import on_mysql, on_postgres
from tests.bench.made_sqlite import rows

_MOST = 2
_HEADS = (
    "SELECT thread_id, max(checkpoint_id) AS head FROM checkpoints WHERE checkpoint_ns = ''"
    " GROUP BY thread_id"
)
_WRITES = {raw: ("writes", "value"), raw_postgres: ("checkpoint_writes", "blob")}
_QUERIES: dict[ModuleType, Callable[[str, str], Iterable[Any]]] = {
    raw: rows,
    raw_postgres: on_postgres,
    raw_mysql: on_mysql,
}
_INTERRUPTED = ("threads", "list", "--all", "--status", "interrupted")
_FAILED = ("threads", "list", "--all", "--status", "error")


def _at_heads(engine: ModuleType, channel: str) -> str:
    """Return the query for writes to a channel at the newest checkpoints."""
    writes, value = _WRITES.get(engine, ("checkpoint_writes", "`blob`"))
    return (
        f"SELECT w.thread_id, w.channel, w.{value} FROM ({_HEADS}) h JOIN {writes} w"
        " ON w.thread_id = h.thread_id AND w.checkpoint_ns = '' AND w.checkpoint_id = h.head"
        f" WHERE w.channel = '{channel}'"
    )


def _same_threads(engine: ModuleType, channel: str, *words: str) -> Callable[[Made, Asked], None]:
    def check(made: Made, ask: Asked) -> None:
        expected = {row[0] for row in _QUERIES[engine](made.url, _at_heads(engine, channel))}
        assert expected
        assert {one["thread_id"] for one in ask(*words)} == expected

    return check


def _asked(store: str, engine: ModuleType, channel: str, *words: str) -> Measurement:
    query = engine.WITH_INTERRUPTS if words == ("interrupts",) else _at_heads(engine, channel)
    beside = Beside("raw query", python(engine.QUERY, query), _MOST, python(engine.START))
    return Measurement(
        what=" ".join(words),
        store=store,
        ours=ckpt(*words, "-o", "json"),
        beside=[beside],
        check=_same_threads(engine, channel, *words),
        rounds=3,
    )


def _by_name(store: str, engine: ModuleType) -> Measurement:
    words = ("threads", "list", "--all", "--where", "thread like 'a4%'")
    sql = (
        "SELECT thread_id, max(checkpoint_id) AS newest FROM checkpoints"
        " WHERE thread_id >= 'a4' AND thread_id < 'a4~' GROUP BY thread_id"
    )

    def check(_: Made, ask: Asked) -> None:
        every = ask("threads", "list", "--all")
        assert ask(*words) == [one for one in every if one["thread_id"].startswith("a4")]

    beside = Beside("raw query", python(engine.QUERY, sql), _MOST, python(engine.START))
    ours = ckpt(*words, "-o", "json")
    return Measurement(what=" ".join(words), store=store, ours=ours, beside=[beside], check=check)


def _by_age(made: Made, ask: Asked) -> None:
    every = ask("threads", "list", "--all")
    last = every[-max(len(every) // 100, 1)]["last_at"]
    found = ask("threads", "list", "--all", "--where", f"last_at < {last[:19]}Z")
    assert found == [one for one in every if one["last_at"][:19] < last[:19]]


_ERRORS, _QUESTIONS = "__error__", "__interrupt__"
SUBJECT = Subject(
    "filters",
    "interrupts, errors, --status, --where",
    [
        _asked("sqlite", raw, _QUESTIONS, "interrupts"),
        _asked("sqlite", raw, _QUESTIONS, *_INTERRUPTED),
        _asked("sqlite filtered", raw, _QUESTIONS, "interrupts"),
        _asked("sqlite filtered", raw, _ERRORS, "errors"),
        _asked("sqlite filtered", raw, _ERRORS, *_FAILED),
        _by_name("sqlite filtered", raw),
        Measurement(
            what="threads list --where 'last_at < 2020-01-01'",
            store="sqlite filtered",
            ours=ckpt("threads", "list", "--all", "--where", "last_at < 2020-01-01", "-o", "json"),
            beside=[
                Beside(
                    "raw query",
                    python(raw.QUERY, f"SELECT * FROM ({_HEADS}) h WHERE head < '1e'"),
                    _MOST,
                    python(raw.START),
                )
            ],
            check=_by_age,
        ),
        _asked("postgres", raw_postgres, _QUESTIONS, "interrupts"),
        _asked("postgres filtered", raw_postgres, _QUESTIONS, "interrupts"),
        _asked("postgres filtered", raw_postgres, _ERRORS, "errors"),
        _asked("postgres filtered", raw_postgres, _ERRORS, *_FAILED),
        _by_name("postgres filtered", raw_postgres),
        _asked("mysql", raw_mysql, _QUESTIONS, "interrupts"),
        *(
            Measurement(
                what="interrupts",
                store=store,
                ours=ckpt("interrupts", "-o", "json"),
                beside=[Beside(name, python(*program), _MOST, python(raw_keys.REDIS_START))],
                rounds=3,
            )
            for store, name, program in (
                ("redis", "FT.AGGREGATE of writes", [raw_redis.WITH_INTERRUPTS]),
                ("redis hashes", "SCAN", [raw_redis.SCAN, "*"]),
            )
        ),
        Measurement(
            what="interrupts",
            store="mongodb",
            ours=ckpt("interrupts", "-o", "json"),
            beside=[
                Beside(
                    "find in writes",
                    python(raw_keys.MONGODB_QUESTIONS),
                    _MOST,
                    python(raw_keys.MONGODB_START),
                )
            ],
            rounds=3,
        ),
        Measurement(
            what="interrupts",
            store="dynamodb",
            ours=ckpt("interrupts", "-o", "json"),
            beside=[
                Beside(
                    "scan of keys",
                    python(raw_keys.DYNAMODB_SCAN),
                    _MOST,
                    python(raw_keys.DYNAMODB_START),
                )
            ],
            rounds=3,
        ),
    ],
)
