"""`erase` on the command line; what is left of a person is tested in tests/erase."""

from pathlib import Path

from tests.commands.words import asks_first, refusals
from tests.kit.command import ckpt


def test_a_thread_is_erased_with_its_operations(sample: Path) -> None:
    assert ckpt("-s", sample, "rollback", "trip-to-kyoto", "~1", "--yes").code == 0
    asks_first(sample, "erase trip-to-kyoto")
    assert ckpt("-s", sample, "show", "trip-to-kyoto").code == 3
    assert b"trip-to-kyoto" not in sample.read_bytes()
    again = ckpt("-s", sample, "erase", "trip-to-kyoto", "--yes")
    assert (again.code, "nothing to erase" in again.err) == (0, True)


def test_a_value_is_erased_and_its_thread_stays(sample: Path) -> None:
    asks_first(sample, "erase --value trip-to-kyoto:destination")
    values = ckpt("-s", sample, "show", "trip-to-kyoto", "-o", "json").json["values"]
    assert (values["destination"], values["hotel"] is None) == ("[erased]", False)


test_wrong_words_are_refused = refusals(
    ("erase", 2, "nothing selected"),
    ("erase --value trip-to-kyoto", 2, "'trip-to-kyoto' names no value"),
)
