"""Read back what a report holds."""

import json
import re
import zlib
from base64 import b64decode
from typing import Any


def data_of(page: str) -> dict[str, Any]:
    found = re.search('<script type="text/plain" id="data">([A-Za-z0-9+/=]*)</script>', page)
    assert found is not None
    data: dict[str, Any] = json.loads(zlib.decompress(b64decode(found[1], validate=True)))
    return data


def states(data: dict[str, Any]) -> list[dict[str, Any] | None]:
    """Return the state of each checkpoint as the page's script does; None if it was left out."""
    values = data["values"]

    def channel(form: Any) -> Any:
        if isinstance(form, int):
            return values[form]
        if isinstance(form, list):
            return [one for first, count in form for one in values[first : first + count]]
        return {key: values[place] for key, place in form.items()}

    return [
        {name: channel(form) for name, form in one["state"].items()} if "state" in one else None
        for one in data["checkpoints"]
    ]
