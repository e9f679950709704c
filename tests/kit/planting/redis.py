"""Changes keys of Redis."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, ClassVar

from tests.kit.harness.redis import RedisHarness
from tests.kit.planting.base import Place, Planter, Typed

BY_CALL = {"lc": 2, "type": "constructor", "id": ["os", "system"], "args": ["true"]}
"""The JSON of an object that a trusting decoder makes by `os.system("true")`."""


class RedisPlanter(Planter[RedisHarness]):
    """Documents of langgraph-checkpoint-redis, with a pointer to each head."""

    spoils_values: ClassVar[bool] = False
    dangerous: ClassVar[Any] = BY_CALL

    @property
    def client(self) -> Any:
        return self.harness.client

    def name(self, at: Place) -> str:
        return f"checkpoint:{at.thread_id}:{at.checkpoint_ns or '__empty__'}:{at.checkpoint_id}"

    def stored(self, name: str | bytes) -> Any:
        return json.loads(self.client.execute_command("JSON.GET", name))

    def store(self, name: str | bytes, path: str, value: Any) -> None:
        self.client.execute_command("JSON.SET", name, path, json.dumps(value))

    def remove(self, at: Place) -> None:
        self.client.delete(self.name(at))

    def body(self, at: Place) -> Any:
        return self.stored(self.name(at))["checkpoint"]

    def set_body(self, at: Place, body: Any) -> None:
        self.store(self.name(at), "$.checkpoint", body)

    def spoil_body(self, at: Place) -> None:
        self.set_body(at, "spoilt")

    def spoil_metadata(self, at: Place) -> None:
        self.store(self.name(at), "$.metadata", "{spoilt")

    def set_write(self, at: Place, channel: str, change: Callable[[Any], Any]) -> str:
        def changed(typed: Typed) -> Typed:
            return typed[0], json.dumps(change(json.loads(typed[1]))).encode()

        return self.edit_write(at, channel, changed)

    def edit_write(self, at: Place, channel: str, change: Callable[[Typed], Typed]) -> str:
        name, one = self._write(at, channel)
        _, data = change(("json", b64decode(one["blob"])))
        self.store(name, "$.blob", b64encode(data).decode())
        return str(one["task_id"])

    def _write(self, at: Place, channel: str) -> tuple[bytes, Any]:
        start = self.name(at).replace("checkpoint:", "checkpoint_write:", 1)
        for name in self.client.scan_iter(f"{start}:*", 10_000):
            one = self.stored(name)
            if one["channel"] == channel:
                return name, one
        raise LookupError(channel)

    def forget_head(self, place: Place) -> None:
        parent = self.parent(place)
        assert parent is not None
        self.remove(place)
        self._point_to(place.at(parent))

    def put_behind(self, head: Place, checkpoint_id: str) -> Place:
        child = super().put_behind(head, checkpoint_id)
        self._point_to(head)
        return child

    def _point_to(self, head: Place) -> None:
        ns = head.checkpoint_ns or "__empty__"
        self.client.set(f"checkpoint_latest:{head.thread_id}:{ns}", self.name(head))
