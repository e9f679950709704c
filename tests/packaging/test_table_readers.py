"""pandas and Polars read exported tables with the right types."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.kit.command import SAMPLE, ckpt

pytestmark = pytest.mark.release

SCRIPT = """
import json, sys
import pandas, polars
lake = sys.argv[1]
frame = pandas.read_parquet(f"{lake}/threads")
table = polars.read_parquet(f"{lake}/threads/*.parquet")
print(json.dumps({
    "pandas": {name: str(kind) for name, kind in frame.dtypes.items()},
    "metadata": json.loads(frame["metadata"].iloc[0]),
    "conditions": list(frame["conditions"].iloc[0]),
    "polars": {name: str(kind) for name, kind in table.schema.items()},
    "ids": [sorted(frame["thread_id"]), sorted(table["thread_id"])],
    "first_at": [frame["first_at"].min().isoformat(), table["first_at"].min().isoformat()],
}))
"""


def test_pandas_and_polars_read_the_types(tmp_path: Path) -> None:
    python, lake = str(tmp_path / "venv" / "bin" / "python"), tmp_path / "lake"
    subprocess.run(["uv", "venv", "--quiet", str(tmp_path / "venv")], check=True)
    install = ["uv", "pip", "install", "--quiet", "--python", python]
    subprocess.run([*install, "pandas", "polars", "pyarrow"], check=True)
    words = ("export", "--all", "--format", "parquet", "--table", "threads", "--to", lake)
    assert ckpt("-s", SAMPLE, *words).code == 0
    answer = subprocess.run(
        [python, "-c", SCRIPT, str(lake)], capture_output=True, text=True, check=True
    )
    found = json.loads(answer.stdout)
    assert found["pandas"]["first_at"] == "datetime64[us, UTC]"
    assert found["pandas"]["checkpoints"] == "int64"
    assert isinstance(found["metadata"], dict)
    assert found["conditions"] in (["done"], ["interrupted"], ["error"], ["running"])
    assert found["polars"]["first_at"] == "Datetime(time_unit='us', time_zone='UTC')"
    assert found["polars"]["conditions"] == "List(String)"
    threads = ckpt("-s", SAMPLE, "threads", "list", "--all", "-o", "json").json
    assert found["ids"] == [sorted(one["thread_id"] for one in threads)] * 2
    earliest = min(one["first_at"] for one in threads).removesuffix("Z")
    assert all(one.startswith(earliest) for one in found["first_at"])
