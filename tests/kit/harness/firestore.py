"""Collections of `FirestoreSaver` in Google's emulator."""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar
from urllib.request import Request, urlopen

from ckpt_backends.testing.counting import Count
from ckpt_backends.testing.harness import Harness, StoredRows, TestServer
from tests.kit.servers import Server

COLLECTION = "agents"


class FirestoreHarness(Harness):
    """FirestoreSaver in a project of its own."""

    name: ClassVar[str] = "firestore"
    server: ClassVar[str | None] = "firestore"

    def create(self, folder: Path, server: TestServer | None) -> str:
        assert isinstance(server, Server)
        self.project = f"demo-{uuid.uuid4().hex[:12]}"
        place = f"{server.url}/emulator/v1/projects/{self.project}/databases/(default)/documents"

        def clear() -> None:
            with urlopen(Request(place, method="DELETE"), timeout=10):
                pass

        self.stack.callback(clear)
        return f"firestore://{self.project}?collection={COLLECTION}"

    @cached_property
    def client(self) -> Any:
        """Google's client."""
        from google.cloud import firestore

        client: Any = firestore.Client(project=self.project)
        self.stack.callback(client.close)
        return client

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from tests.kit.savers.firestore import SeeingSaver

        saver = SeeingSaver(self.project, COLLECTION)
        try:
            yield saver
        finally:
            saver.client.close()

    def accepts_thread_id(self, thread_id: str) -> bool:
        return "/" not in thread_id

    def forget(self, thread_id: str) -> None:
        from google.api_core.exceptions import Aborted

        ends = time.monotonic() + 70
        while True:
            try:
                super().forget(thread_id)
                return
            except Aborted:  # by the lock of a killed run, which expires after a minute
                if time.monotonic() > ends:
                    raise

    def documents(self, group: str, thread_id: str | None = None) -> dict[str, dict[str, Any]]:
        """The documents of all collections of this name, or those of a thread and of those whose
        ids begin like it, by path.
        """
        return dict(self.kept_saver.documents(group, thread_id))

    def fingerprint(self) -> object:
        return self.documents("checkpoints"), self.documents("writes")

    def _of(self, thread_id: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Kind, path and fields of the documents of a thread."""
        for group in ("checkpoints", "writes"):
            for path, fields in self.documents(group, thread_id).items():
                if fields["checkpoint_key"].split("/")[1] == thread_id:
                    yield group, path, fields

    def rows(self, thread_id: str) -> StoredRows:
        found: StoredRows = {"checkpoints": [], "writes": []}
        for group, _, fields in self._of(thread_id):
            _, _, ns, own, *task = fields["checkpoint_key"].split("/")
            rest = {one: value for one, value in fields.items() if one != "checkpoint_key"}
            if group == "checkpoints":
                names = ("parent_checkpoint_id", "type", "checkpoint")
                first = ns, own, *(rest.pop(name) for name in names)
                found[group].append((*first, repr(rest.pop("metadata")), repr(sorted(rest))))
            else:
                found[group].append((ns, own, *task, repr(sorted(rest.items()))))
        return {table: sorted(rows) for table, rows in found.items()}

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        for _, path, fields in self._of(thread_id):
            kind, _, ns, own, *rest = fields["checkpoint_key"].split("/")
            if own <= until:
                place = self.client.document(COLLECTION, f"{new_id}_{ns}", *path.split("/")[2:])
                place.set({**fields, "checkpoint_key": "/".join([kind, new_id, ns, own, *rest])})

    def has_stateful_subgraph(self, thread_id: str) -> bool:
        found = self.kept_saver.namespaces({"configurable": {"thread_id": thread_id}})
        return any(ns and ":" not in ns for ns in found)

    def count(self) -> Count:
        found = Count()
        for fields in self.documents("checkpoints").values():
            size = sum(map(_length, (fields["checkpoint"], fields["metadata"][1])))
            found.add("checkpoints", "checkpoints", size)
        for fields in self.documents("writes").values():
            found.add("writes", "writes", _length(fields["value"]))
        return found


def _length(text: str) -> int:
    """The length of what a text is the base64 of."""
    return len(text) * 3 // 4 - text.count("=")
