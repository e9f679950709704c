"""Makes the search indexes of LangGraph's savers in an empty database, as `setup()` does.

The savers are langgraph-checkpoint-redis 0.5 (`checkpoints_schema` and `writes_schema` in its
`base.py`) and @langchain/langgraph-checkpoint-redis 1.0 (`SCHEMAS` in its `index.js`). Both need
RediSearch; without it there is nothing to make.
"""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_backends import shell
from ckpt_backends.errors import Refused, UnknownLayout, Unsupported
from ckpt_backends.redis.engine.connect import connect
from ckpt_backends.redis.engine.connection import RedisConnection, explained_change
from ckpt_backends.redis.engine.detect import open_layout
from ckpt_backends.redis.engine.keyspace import USUAL, raw, text
from ckpt_backends.redis.engine.receiving import STAGED
from ckpt_backends.servers import opening
from ckpt_backends.transfer.form import Language
from ckpt_backends.url import StoreUrl

_LAYOUTS = {Language.PYTHON: "redis", Language.JAVASCRIPT: "redis-js"}
_BESIDE = (b"store:", b"store_vectors:", STAGED)
"""The beginnings of keys that may be there: of long-term memory, and of interrupted copies."""
_TAG, _NUMBER = "TAG", "NUMERIC"
_PLACE = ("thread_id", "checkpoint_ns", "checkpoint_id")
_TASK = {"task_id": _TAG, "idx": _NUMBER, "channel": _TAG, "type": _TAG}
_CHECKPOINT = {
    **dict.fromkeys(("thread_id", "run_id", "checkpoint_ns", "checkpoint_id"), _TAG),
    **{"parent_checkpoint_id": _TAG, "checkpoint_ts": _NUMBER, "source": _TAG, "step": _NUMBER},
    "has_writes": _TAG,
}
_WRITE = dict.fromkeys(_PLACE, _TAG) | _TASK
_OF_JAVASCRIPT: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "checkpoints": (
        "checkpoint:",
        {
            **dict.fromkeys(_PLACE, _TAG),
            **{"parent_checkpoint_id": _TAG, "checkpoint_ts": _NUMBER, "has_writes": _TAG},
            **{"source": _TAG, "step": _NUMBER},
        },
    ),
    "checkpoint_blobs": (
        "checkpoint_blob:",
        dict.fromkeys((*_PLACE, "channel", "version", "type"), _TAG),
    ),
    "checkpoint_writes": ("checkpoint_write:", _WRITE),
}
"""By name of an index, the prefix of its keys, and its fields with their types."""


def create_store(url: StoreUrl, language: Language) -> None:
    """Make the indexes in an empty database, unless they are there.

    Raises `Refused` if there are other keys, `Unsupported` without RediSearch, and
    `StoreUnavailable`.
    """
    wanted = _LAYOUTS[language]
    if url.params.get("layout", wanted) != wanted:
        raise Unsupported(f"cannot make a store of the layout '{url.params['layout']}'")
    with opening(connect(url), url) as connection:
        try:
            if connection.find("FT._LIST") is None:
                raise Unsupported(
                    f"'{url}' has no RediSearch, so there are no indexes to make",
                    hint=f"LangGraph's saver needs it; without it, name the layout:"
                    f" ?layout={wanted}, and leave --create out",
                )
            found = _layout_in(connection, url)
            if found is not None and found != wanted:
                raise Refused(f"cannot make a store in '{url}': it has one of the layout '{found}'")
            if found is None:
                _check_empty(connection, url)
                _create(connection, url, language)
        finally:
            connection.close()


def _layout_in(connection: RedisConnection, url: StoreUrl) -> str | None:
    """The layout of the store that is there; None if there is none."""
    try:
        return open_layout(connection, url.with_params({}, without=("layout",))).name
    except UnknownLayout:
        return None


def _check_empty(connection: RedisConnection, url: StoreUrl) -> None:
    others = (
        name for names in connection.scan(b"*") for name in names if not name.startswith(_BESIDE)
    )
    if (first := next(others, None)) is not None:
        raise Refused(
            f"cannot make a store in '{url}': it is not empty",
            hint=f"found {shell.name(text(first))}; name an empty database",
        )


def _create(connection: RedisConnection, url: StoreUrl, language: Language) -> None:
    indexes = _OF_JAVASCRIPT
    if language is Language.PYTHON:
        checkpoint = url.params.get("prefix", USUAL.checkpoint)
        write = url.params.get("write_prefix", USUAL.write)
        indexes = {checkpoint: (f"{checkpoint}:", _CHECKPOINT), write: (f"{write}:", _WRITE)}
    with explained_change(url, "not all indexes were made"):
        for name, (prefix, fields) in indexes.items():
            words = [word for one in fields.items() for word in _field(*one, language)]
            connection.driver.execute_command(
                *("FT.CREATE", raw(name), "ON", "JSON", "PREFIX", 1, raw(prefix), "SCHEMA", *words)
            )


def _field(name: str, kind: str, language: Language) -> tuple[str, ...]:
    # RedisSaver's library names the separator of a list of tags; LangGraph.js has none.
    more = ("SEPARATOR", ",") if kind == _TAG and language is Language.PYTHON else ()
    return (f"$.{name}", "AS", name, kind, *more)
