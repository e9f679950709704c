"""Changes the events of AgentCoreMemorySaver."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from typing import Any

from langgraph_checkpoint_aws.checkpoint.agentcore.models import CheckpointerConfig

from tests.kit.harness.agentcore import ACTOR, AgentCoreHarness
from tests.kit.planting.base import ANY_VALUE, SERDE, SPOILT, Place, Planter, Typed


class AgentCorePlanter(Planter[AgentCoreHarness]):
    """Texts in the payloads of events, in the usual form."""

    def _items(self, session: str | None = None) -> Iterator[tuple[list[Any], int, Any]]:
        """Each text as its payload, its place in it, and what it holds."""
        for place, events in self.harness.stored():
            if session not in {None, place[2]}:
                continue
            for event in list(events.values()):
                for number, item in enumerate(list(event["payload"])):
                    yield event["payload"], number, json.loads(item["blob"])

    def _found(self, **wanted: Any) -> tuple[list[Any], int, Any]:
        for payload, number, fields in self._items():
            if {**fields, **wanted} == fields:
                return payload, number, fields
        raise LookupError(wanted)

    def _set(self, fields: dict[str, Any], **wanted: Any) -> None:
        payload, number, found = self._found(**wanted)
        payload[number] = {"blob": json.dumps({**found, **fields})}

    def _wanted(self, place: Place) -> dict[str, Any]:
        return {
            "event_type": "checkpoint",
            "thread_id": place.thread_id,
            "checkpoint_ns": place.checkpoint_ns,
            "checkpoint_id": place.checkpoint_id,
        }

    def ids(self, thread_id: str, checkpoint_ns: str) -> list[str]:
        found = [fields for _, _, fields in self._items() if fields["event_type"] == "checkpoint"]
        space = thread_id, checkpoint_ns
        here = [one for one in found if (one["thread_id"], one["checkpoint_ns"]) == space]
        return sorted((one["checkpoint_id"] for one in here), reverse=True)

    def namespaces(self, thread_id: str) -> list[str]:
        return list(self.harness.kept_saver.namespaces(thread_id))

    def parent(self, place: Place) -> str | None:
        found: str | None = self._found(**self._wanted(place))[2].get("parent_checkpoint_id")
        return found

    def remove(self, place: Place) -> None:
        payload, number, _ = self._found(**self._wanted(place))
        del payload[number]

    def stored_body(self, place: Place) -> Typed:
        return _typed(self._found(**self._wanted(place))[2]["checkpoint_data"])

    def store_body(self, place: Place, typed: Typed) -> None:
        self._set({"checkpoint_data": _stored(typed)}, **self._wanted(place))

    def spoil_metadata(self, place: Place) -> None:
        self._set({"metadata": _stored(("msgpack", SPOILT))}, **self._wanted(place))

    def _of_value(self, place: Place, channel: str) -> dict[str, Any]:
        version = str(self.body(place)["channel_versions"][channel])
        wanted = {"event_type": "channel_data", "thread_id": place.thread_id}
        return wanted | {
            "checkpoint_ns": place.checkpoint_ns,
            "channel": channel,
            "version": version,
        }

    def value(self, place: Place, channel: str) -> Any:
        return SERDE.loads_typed(_typed(self._found(**self._of_value(place, channel))[2]["value"]))

    def set_value(self, place: Place, channel: str, value: Any) -> None:
        typed = _stored(SERDE.dumps_typed(value))
        self._set({"value": typed}, **self._of_value(place, channel))

    def remove_value(self, place: Place, channel: str) -> None:
        payload, number, _ = self._found(**self._of_value(place, channel))
        del payload[number]

    def spoil_value(self, place: Place, channel: str) -> None:
        stored = _stored(("msgpack", SPOILT))
        self._set({"value": stored}, **self._of_value(place, channel))

    def add_value(self, place: Place, channel: str) -> None:
        payload, _, fields = self._found(**self._of_value(place, channel))
        payload.append({"blob": json.dumps({**fields, "version": ANY_VALUE})})

    def edit_write(self, place: Place, channel: str, change: Callable[[Typed], Typed]) -> str:
        session = CheckpointerConfig(
            thread_id=place.thread_id, actor_id=ACTOR, checkpoint_ns=place.checkpoint_ns
        ).session_id
        for payload, number, fields in self._items(session):
            if fields.get("checkpoint_id") != place.checkpoint_id or "writes" not in fields:
                continue
            for one in fields["writes"]:
                if one["channel"] == channel:
                    one["value"] = _stored(change(_typed(one["value"])))
                    payload[number] = {"blob": json.dumps(fields)}
                    return str(one["task_id"])
        raise LookupError(channel)


def _typed(stored: dict[str, str]) -> Typed:
    return stored["type"], b64decode(stored["data"])


def _stored(typed: Typed) -> dict[str, str]:
    tag, data = typed
    return {"type": tag, "data": b64encode(data).decode()}
