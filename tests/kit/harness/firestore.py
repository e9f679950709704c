"""Collections of `FirestoreSaver` in Google's emulator."""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar
from urllib.request import Request, urlopen

from ckpt_backends.testing.harness import Harness, TestServer
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
        """The documents of all collections of a name, or of threads that begin so, by path."""
        return dict(self.kept_saver.documents(group, thread_id))

    def fingerprint(self) -> object:
        return self.documents("checkpoints"), self.documents("writes")
