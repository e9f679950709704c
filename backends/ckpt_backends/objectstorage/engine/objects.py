"""Lists, reads and writes objects: in a folder, or below a prefix of a bucket.

`ckpt` keeps objects of its own below `.ckpt/`, where the saver looks for nothing: the lock of a
bucket, and what a change adds and removes while it is under way (`Unfinished`).
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import fsspec

from ckpt_backends.errors import CkptError, Closing, StoreUnavailable, UsageError, reason_of
from ckpt_backends.files import create_part, locked, open_regular, remove_unfinished, sync_folder
from ckpt_backends.files import to_disk as write_to_disk
from ckpt_backends.model import in_chunks
from ckpt_backends.objectstorage.engine import PARAMS, S3
from ckpt_backends.overwriting import OldFiles
from ckpt_backends.servers import first_line, is_local, warn_unencrypted
from ckpt_backends.url import StoreUrl, split_url

OWN = ".ckpt"
_LOCK, _PENDING = f"{OWN}/lock", ".pending"
_HELD, _KEPT, _PATIENCE = 30.0, 5.0, 6.0
"""Seconds that the lock of a killed run holds, between two extensions, and to wait for another."""
_SECONDS = {"connect_timeout": 5, "read_timeout": 30}


@contextmanager
def explained(url: StoreUrl, verb: str = "read") -> Iterator[None]:
    """Turn errors of the file system into `StoreUnavailable`."""
    try:
        yield
    except CkptError:
        raise
    except OSError as error:
        raise StoreUnavailable(f"cannot {verb} '{url}': {reason_of(error)}") from error
    except Exception as error:  # of a driver that each kind of bucket has for itself
        raise StoreUnavailable(f"cannot {verb} '{url}': {first_line(error, url)}") from error


class Unfinished(NamedTuple):
    """A change under way. It is done as soon as all that it adds is there, and not yet begun
    before: until its record is removed, it is completed or taken back by the next run.
    """

    name: str
    added: Sequence[str]
    removed: Sequence[str]


class Objects(Closing):
    """The objects of a store, each named by its path from the root. Raises `StoreUnavailable`."""

    def __init__(self, url: StoreUrl) -> None:
        """Connect. Raises `UsageError` for a URL of another form, too."""
        self.url, self.is_folder = url, url.scheme != S3
        self.old: OldFiles | None = None
        """Overwrites the files that are replaced or removed, during an erasure."""
        self._like: Path | None = None
        """A file of the saver, whose owner and mode new files get."""
        self._again = float("inf")
        """When the lock must be extended, as `time.monotonic`."""
        known = {"layout", *(() if self.is_folder else PARAMS)}
        if unknown := sorted(url.params.keys() - known):
            raise UsageError(f"cannot read the URL '{url}': unknown parameter '{unknown[0]}'")
        if split_url(url.raw).user is not None and not self.is_folder:
            raise UsageError(
                "refused: the URL of a bucket must not contain credentials",
                hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use ?profile=NAME",
            )
        with explained(url, "open"):
            if self.is_folder:
                self.root = Path(os.path.abspath(url.path)).as_posix()
                self._files = fsspec.filesystem("file", skip_instance_cache=True)
            else:
                self.root = url.path.rstrip("/")
                self._files = _s3(url)
            if not self._files.isdir(self.root if self.is_folder else self.root.split("/")[0]):
                what = "folder" if self.is_folder else "bucket"
                raise StoreUnavailable(f"cannot open '{url}': no such {what}")

    def find(self, below: str) -> list[tuple[str, int]]:
        """The objects below a path, each with its size, in order."""
        with explained(self.url):
            found = self._files.find(f"{self.root}/{below}", detail=True)
        start = len(self.root) + 1
        files = ((path, one) for path, one in found.items() if one.get("type") == "file")
        return sorted((path[start:], one["size"]) for path, one in files)

    def folders(self) -> list[str]:
        """What stands before the first `/` of the objects, in order: the ids of threads."""
        with explained(self.url):
            try:
                found = self._files.ls(self.root, detail=True)
            except FileNotFoundError:
                return []
        names = (one["name"].rpartition("/")[2] for one in found if one["type"] == "directory")
        return sorted(name for name in names if name != OWN)

    def read(self, path: str) -> bytes | None:
        """The bytes of an object; None if there is none."""
        self._keep()
        with explained(self.url):
            try:
                if not self.is_folder:
                    found: bytes = self._files.cat_file(f"{self.root}/{path}")
                    return found
                self._like = Path(self.root, path)
                with open_regular(self._like) as file:
                    return file.read()
            except FileNotFoundError:
                return None

    def write(self, path: str, data: bytes) -> None:
        """Store an object, whole or not at all."""
        self._keep()
        with explained(self.url, "write to"):
            if not self.is_folder:
                self._files.pipe_file(f"{self.root}/{path}", data)
                return
            target, own = Path(self.root, path), Path(self.root, OWN)
            for folder in (own, target.parent):
                folder.mkdir(parents=True, exist_ok=True)
            # Beside its target, the saver would take it for a checkpoint.
            like = self._like if self._like is not None and self._like.exists() else None
            part, file = create_part(own / "new", like)
            with file:
                file.write(data)
                write_to_disk(file)
            with self._overwritten(target):
                part.replace(target)
            sync_folder(target.parent)

    def remove(self, paths: Iterable[str]) -> None:
        """Remove objects that may be there, and folders that are empty then."""
        for some in in_chunks(paths):
            self._keep()
            with explained(self.url, "write to"):
                if not self.is_folder:
                    self._files.rm([f"{self.root}/{one}" for one in some])
                    continue
                for path in some:
                    with self._overwritten(Path(self.root, path)), suppress(FileNotFoundError):
                        Path(self.root, path).unlink()
                    with suppress(OSError):
                        for folder in list(Path(path).parents)[:-1]:
                            Path(self.root, folder).rmdir()

    @contextmanager
    def _overwritten(self, path: Path) -> Iterator[None]:
        if self.old is not None and path.exists():
            self.old.hold(path, "an object")
        yield
        if self.old is not None:
            self.old.overwrite()

    # Changes under way

    def unfinished(self) -> Iterator[Unfinished]:
        """The changes under way, or left by a killed run."""
        for path, _ in self.find(f"{OWN}/"):
            if path.endswith(_PENDING) and (data := self.read(path)) is not None:
                with explained(self.url):
                    yield Unfinished(path, *json.loads(data))

    def begin(self, added: Sequence[str], removed: Sequence[str]) -> Unfinished:
        """Record a change before it is carried out."""
        found = Unfinished(f"{OWN}/{secrets.token_hex(8)}{_PENDING}", added, removed)
        self.write(found.name, json.dumps(found[1:]).encode())
        return found

    def is_done(self, one: Unfinished) -> bool:
        """Whether all is there that a change adds."""
        threads = {path.partition("/")[0] for path in one.added}
        there = {path for thread in threads for path, _ in self.find(f"{thread}/")}
        return there.issuperset(one.added)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other runs of `ckpt` from changing the store; savers do not know of the lock."""
        if self.is_folder:
            with locked(Path(self.root)):
                remove_unfinished(Path(self.root, OWN), "new".__eq__)
                yield
            return
        until = time.monotonic() + _PATIENCE
        with explained(self.url, "write to"):
            while not self._taken():
                if time.monotonic() > until:
                    raise StoreUnavailable(
                        f"'{self.url}' is being changed by another command",
                        hint="run the command again when it has finished; the lock of a killed run"
                        f" ({_LOCK}) expires after {_HELD:.0f} s",
                    )
                time.sleep(0.2)
        self._again = time.monotonic() + _KEPT
        try:
            yield
        finally:
            self._again = float("inf")
            self.remove([_LOCK])

    def _taken(self) -> bool:
        path = f"{self.root}/{_LOCK}"
        try:
            self._files.pipe_file(path, b"", mode="create")
        except FileExistsError:
            with suppress(FileNotFoundError):
                made: datetime = self._files.info(path, refresh=True)["LastModified"]
                if (datetime.now(UTC) - made).total_seconds() > _HELD:
                    self.remove([_LOCK])
            return False
        return True

    def _keep(self) -> None:
        if time.monotonic() >= self._again:
            self._again = float("inf")  # this writes, too
            self.write(_LOCK, b"")
            self._again = time.monotonic() + _KEPT

    def close(self) -> None:
        """Let go of what an erasure has open; each request has a connection of its own."""
        if self.old is not None:
            self.old.close()


def _s3(url: StoreUrl) -> Any:
    """The file system of a bucket. Credentials come from the chain of AWS."""
    endpoint = url.params.get("endpoint") or None
    host = urlsplit(endpoint or "").hostname or ""
    if (endpoint or "").startswith("http:") and not is_local(host):
        warn_unencrypted(host, "use an https:// endpoint", f"data from '{host}' comes")
    return fsspec.filesystem(
        "s3",
        endpoint_url=endpoint,
        profile=url.params.get("profile") or None,
        client_kwargs={"region_name": url.params.get("region") or None},
        config_kwargs={**_SECONDS, "user_agent_extra": "ckpt"},
        use_listings_cache=False,
        skip_instance_cache=True,
    )
