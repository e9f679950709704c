"""The classes that `ckpt doctor --types` lists are those that the official saver calls."""

from typing import Any

from ckpt_backends.testing.command_line import ckpt
from ckpt_backends.testing.filling import FilledStore

DISTINCT = True


def test_the_listed_types_are_those_that_the_saver_calls(filled: FilledStore) -> None:
    answer = ckpt("-s", filled.harness.url, "doctor", "--types", "-o", "json").json
    assert answer["complete"], answer["unchecked"]
    assert not any(one["dangerous"] for one in answer["types"])
    allowed = {tuple(one) for one in answer["allowed_msgpack_modules"]}
    assert allowed == (set() if filled.harness.recording is not None else _called(filled))


def _called(filled: FilledStore) -> set[tuple[str, str]]:
    """Return the classes of msgpack that the saver calls though strict mode would not."""
    from langgraph.checkpoint.serde.event_hooks import register_serde_event_listener

    called: set[tuple[str, str]] = set()

    def listen(event: Any) -> None:
        called.add((event["module"], event["name"]))

    forget = register_serde_event_listener(listen)
    try:
        for thread_id in filled.threads:
            list(filled.harness.kept_saver.list({"configurable": {"thread_id": thread_id}}))
    finally:
        forget()
    return called
