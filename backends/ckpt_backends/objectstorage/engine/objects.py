"""Lists, reads and writes objects: in a folder, or below a prefix of a bucket."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fsspec

from ckpt_backends.errors import CkptError, StoreUnavailable, UsageError, reason_of
from ckpt_backends.files import create_part, locked, open_regular, remove_unfinished, sync_folder
from ckpt_backends.files import to_disk as write_to_disk
from ckpt_backends.model import in_chunks
from ckpt_backends.objects import Name, Objects
from ckpt_backends.objectstorage.engine import PARAMS, S3
from ckpt_backends.objectstorage.engine.records import is_safe, name_of
from ckpt_backends.overwriting import OldFiles
from ckpt_backends.servers import first_line, is_local, warn_unencrypted
from ckpt_backends.url import StoreUrl, split_url

OWN = ".ckpt"
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


class FileObjects(Objects):
    """The objects of a store, each named by its path from the root. Raises `StoreUnavailable`."""

    own = f"{OWN}/"

    def __init__(self, url: StoreUrl) -> None:
        """Connect. Raises `UsageError` for a URL of another form, too."""
        super().__init__(url)
        self.is_folder = url.scheme != S3
        if self.is_folder:
            self.at_once = 1
        self.old: OldFiles | None = None
        """Overwrites the files that are replaced or removed, during an erasure."""
        self._like: Path | None = None
        """A file of the saver, whose owner and mode new files get."""
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

    def name_of(self, path: str) -> Name | None:
        return name_of(path)

    def names(self, thread_id: str) -> Iterator[Name]:
        found = self._find(f"{thread_id}/") if is_safe(thread_id) else []
        return (one for path in found if (one := name_of(path)) is not None)

    def own_paths(self) -> list[str]:
        return self._find(self.own)

    def _find(self, below: str) -> list[str]:
        """The objects below a path, in order."""
        with explained(self.url):
            found = self._files.find(f"{self.root}/{below}", detail=True)
        start = len(self.root) + 1
        return sorted(path[start:] for path, one in found.items() if one.get("type") == "file")

    def thread_ids(self, prefix: str = "") -> list[str]:
        with explained(self.url):
            try:
                found = self._files.ls(self.root, detail=True)
            except FileNotFoundError:
                return []
        names = (one["name"].rpartition("/")[2] for one in found if one["type"] == "directory")
        return sorted(name for name in names if name != OWN and name.startswith(prefix))

    def read(self, path: str) -> bytes | None:
        self.keep_lock()
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
        self.keep_lock()
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
            self.keep_lock()
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

    @contextmanager
    def lock(self) -> Iterator[None]:
        if not self.is_folder:
            with super().lock():
                yield
            return
        with locked(Path(self.root)):
            remove_unfinished(Path(self.root, OWN), "new".__eq__)
            yield

    def lock_made(self, path: str) -> datetime | None:
        own = f"{self.root}/{path}"
        with explained(self.url, "write to"):
            while True:
                try:
                    self._files.pipe_file(own, b"", mode="create")
                except FileExistsError:
                    with suppress(FileNotFoundError):
                        made: datetime = self._files.info(own, refresh=True)["LastModified"]
                        return made
                else:
                    return None

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
