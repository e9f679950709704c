"""What the benchmark declares fits together. Nothing is measured here."""

import shlex

from bench import agents, raw
from bench.rows import CHECKS, ROWS
from bench.stores import SIZES
from ckpt_cli.app import COMMANDS

_COMMANDS = {name.partition(" ")[0] for names in COMMANDS.values() for name in names}
_FACTS = {"url": "x", "waiting": "x", "number": "1", "target": "x"}


def test_each_line_of_the_table_can_be_told_from_the_others() -> None:
    lines = [(one.store, one.ours, engine) for one in ROWS for engine in one.engines]
    assert len({*lines}) == len(lines)


def test_each_row_names_what_there_is() -> None:
    for row in ROWS:
        assert not row.store or row.store in agents.RECIPES, row
        assert not row.store or len(SIZES[row.store]) >= len(row.engines), row
        assert row.most is None or row.beside, row
        for words in filter(None, (row.ours, row.beside, row.start)):
            program, *rest = shlex.split(words.format(**_FACTS))
            assert program in {"ckpt", "raw", "official", "screen", "typer", "python"}, row
            if program == "raw":
                assert callable(getattr(raw, rest[0])), row
            if program == "ckpt" and not rest[0].startswith(("-", "_")):
                assert rest[0] in _COMMANDS, row


def test_each_check_is_used() -> None:
    begun = [f"{words} " for one in ROWS for words in (one.ours, one.beside)]
    assert [of for of in CHECKS if not any(one.startswith(f"{of} ") for one in begun)] == []
