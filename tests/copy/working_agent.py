"""An agent that works on a SQLite file until it is told to stop. Run with the path of the file.

The last of its threads then waits for an answer.
"""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.testing.library import config_of_thread, graph_of

TRIP = "trip"
"""The thread that asks a question in the end."""


def work(path: Path) -> None:
    """Add turns to some threads until the file `stop` is there, then ask."""
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        saver = SqliteSaver(connection)
        turn = 0
        while not path.with_name("stop").exists():
            turn += 1
            thread = TRIP if turn % 3 == 0 else f"t{turn % 7}"
            graph_of(saver).invoke({"items": [f"turn {turn}"]}, config_of_thread(thread))
            print(turn, flush=True)
        graph_of(saver, asks=True).invoke({"items": ["book"]}, config_of_thread(TRIP))


if __name__ == "__main__":
    work(Path(sys.argv[1]))
