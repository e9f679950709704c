"""What `list` of a saver promises, for savers that return less, or more."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any


def listed(
    found: Iterable[Any], *, before: Any = None, limit: int | None = None, **more: Any
) -> Iterator[Any]:
    """Choose among checkpoints: those before one, with such metadata, and as many."""
    end = (before or {}).get("configurable", {}).get("checkpoint_id")
    some = (one for one in found if not end or one.checkpoint["id"] < end)
    wanted = (more.get("filter") or {}).items()
    return islice((one for one in some if wanted <= one.metadata.items()), limit)


class EveryNamespace:
    """Goes before a saver, so that `list` returns all namespaces if none is asked for."""

    def list(self, config: Any, **options: Any) -> Iterator[Any]:
        asked = config["configurable"]
        saver: Any = super()
        for ns in [asked["checkpoint_ns"]] if "checkpoint_ns" in asked else self.namespaces(config):
            yield from saver.list({"configurable": {**asked, "checkpoint_ns": ns}}, **options)

    def namespaces(self, config: Any) -> Iterable[str]:
        """Return the namespaces of a thread, sorted."""
        raise NotImplementedError
