"""Objects of `ObjectStorageSaver`, in a folder and in a bucket."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ckpt_backends.objectstorage.engine.records import is_safe
from ckpt_backends.testing.harness import Harness, Refusal, TestServer
from tests.kit.servers import Server


class ObjectStorageHarness(Harness):
    """ObjectStorageSaver on a folder."""

    name: ClassVar[str] = "objectstorage"
    has_task_paths: ClassVar[bool] = False
    failing_scenarios: ClassVar[frozenset[str]] = frozenset(
        # The saver refuses a thread id with such characters.
        {"alice@example.com", 'o\'brien "x"', "two\nlines", "100%", "*?[", "linear@head"}
        | {" padded ", "__\x1b[31mred\t<b>[bold]", "rtl \u202eevil\u202c"}
        # LangGraph passes on what it has cached in another form than the saver asks for.
        | {"cached"}
    )
    skipped_scenarios: ClassVar[frozenset[str]] = frozenset(
        # It refuses the `|` in the namespace of a subgraph inside a subgraph, or called twice.
        {"interrupt-nested", "interrupt-nested-answered", "subgraph-twice"}
    )
    scenario_errors: ClassVar[Refusal] = Exception
    run_options: ClassVar[Mapping[str, Any]] = {"durability": "sync"}
    """If the graph does not wait, the saver serializes a checkpoint so late that a join may be
    stored as the next step leaves it."""

    def create(self, folder: Path, server: TestServer | None) -> str:
        root = folder / "store"
        root.mkdir()
        return f"objectstorage:///{root}"

    @property
    def root(self) -> str:
        """Where the objects are, in the words of fsspec."""
        return self._url.partition(":///")[2]

    @cached_property
    def files(self) -> Any:
        import fsspec

        return fsspec.filesystem("file", skip_instance_cache=True)

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from tests.kit.savers.objectstorage import SeeingSaver

        yield SeeingSaver(self.files, self.root)

    def accepts_thread_id(self, thread_id: str) -> bool:
        return is_safe(thread_id)

    def objects(self) -> dict[str, bytes]:
        found = self.files.find(f"{self.root}/")
        return {one[len(self.root) + 1 :]: self.files.cat_file(one) for one in found}

    def put(self, path: str, data: bytes) -> None:
        self.files.makedirs(f"{self.root}/{path}".rpartition("/")[0], exist_ok=True)
        self.files.pipe_file(f"{self.root}/{path}", data)

    def fingerprint(self) -> object:
        return self.objects()


class BucketHarness(ObjectStorageHarness):
    """ObjectStorageSaver on a bucket of S3."""

    name: ClassVar[str] = "objectstorage-s3"
    server: ClassVar[str | None] = "dynamodb"

    def create(self, folder: Path, server: TestServer | None) -> str:
        assert isinstance(server, Server)
        bucket = f"ckpt-test-{uuid.uuid4().hex[:12]}"
        self._endpoint = server.url
        self.files.mkdir(bucket)
        self.stack.callback(self.files.rm, bucket, recursive=True)
        return f"s3://{bucket}/agents/one?region=eu-central-1&endpoint={server.url}"

    @property
    def root(self) -> str:
        return self._url.partition("://")[2].partition("?")[0]

    @cached_property
    def files(self) -> Any:
        import fsspec

        return fsspec.filesystem(
            "s3",
            endpoint_url=self._endpoint,
            client_kwargs={"region_name": "eu-central-1"},
            use_listings_cache=False,
            skip_instance_cache=True,
        )
