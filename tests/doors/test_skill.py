"""What the skill for agents says is so."""

import re
import shlex

from ckpt_cli.app import root
from tests.kit.command import ROOT, SAMPLE, ckpt

FOR = {
    "THREAD@REF": "trip-to-kyoto@~1",
    "THREAD": "trip-to-kyoto",
    "PATH": "hotel",
    "TEXT": "Kyoto",
}
SKILL = (ROOT / "share" / "ckpt" / "SKILL.md").read_text("utf-8")


def test_the_skill_names_commands_that_exist() -> None:
    named = {line.split()[1] for line in re.findall(r"`(ckpt [a-z][^`]*)`", SKILL)}
    assert named - root().commands.keys() == set()


def test_the_commands_of_the_skill_run_on_the_sample() -> None:
    ran = 0
    for line in re.findall(r"^\| [^|]+ \| (`ckpt .*) \|$", SKILL, re.MULTILINE):
        for words in re.findall(r"`ckpt ([^`]*)`", line):
            if words.startswith(("memory", "stores")):  # the sample has no memory
                continue
            given = re.sub("|".join(FOR), lambda found: FOR[found.group()], words)
            answer = ckpt("-s", SAMPLE, *shlex.split(given))
            assert answer.code in {0, 1}, (given, answer.err)
            ran += 1
    assert ran > 15
