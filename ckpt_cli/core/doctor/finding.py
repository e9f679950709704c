"""Findings, and what was checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ckpt_backends import shell
from ckpt_backends.model import Fault
from ckpt_cli.core.doctor.codes import CODES, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong with a store, a thread or a row."""

    code: str
    """A key of `CODES`."""
    detail: str
    """What is wrong, with names and numbers, never with values."""
    thread_id: str | None = None
    checkpoint_ns: str | None = None
    checkpoint_id: str | None = None
    channel: str | None = None
    task_id: str | None = None
    own_severity: Severity | None = None
    """The severity, if it differs from that of the code."""
    version: str | None = None
    """The version of the channel's value, if the finding is about one that is stored apart."""
    own_fix: str = ""
    """A statement of the engine that mends it, as its adapter found out."""
    has_fix: bool = True
    """Whether the command of the code may mend it; False if no plan needs to be made."""
    command: str = ""
    """The command of the code, in the form of `Code.fix`, if a plan showed that it mends this."""
    mended_at: str | None = None
    """The checkpoint that TARGET stands for in `command`, if it is another one."""
    ref: str | None = None
    """A short ref of the checkpoint; None if it is not stored, or if no short one was looked up."""

    @property
    def severity(self) -> Severity:
        return self.own_severity or CODES[self.code].severity

    def fix(self, store: Sequence[str]) -> str:
        """Return a command or statement that mends it; `''` if none does.

        `store` are the words that name the store, such as `["-s", "agent.db"]`.
        """
        return self.own_fix or self._line(store, self.command, self.mended_at or self.ref)

    def look(self, store: Sequence[str]) -> str:
        """Return a command that shows more about it; `''` if none does."""
        command = CODES[self.code].look
        # `gc --dry-run` is refused where nothing can be changed.
        is_refused = not self.has_fix and command.startswith("gc ")
        return "" if is_refused else self._line(store, command, self.ref)

    def _line(self, store: Sequence[str], command: str, ref: str | None) -> str:
        """Return a command as a line to paste into a shell; `''` for none."""
        words = command.split()
        thread = self.thread_id or ""
        if not words or ("THREAD" in words and not thread):
            return ""
        target = f"{thread}@{ref or self.checkpoint_id}" if self.checkpoint_id else thread
        # A checkpoint of a subgraph is addressed by its id and its namespace.
        ns = ["--ns", self.checkpoint_ns] if self.checkpoint_ns and "TARGET" in words else []
        ids = {"THREAD": thread, "TARGET": target, "~1": "~1"}
        plain = [one for one in words if one not in ids]
        named = [ids[one] for one in words if one in ids]
        return shell.possible_command("ckpt", *store, *plain, *ns, ids=named)


def _severity_of(fault: Fault) -> Severity | None:
    """Return the severity of a fault; None if it is that of its code."""
    if fault.is_error:
        return Severity.ERROR
    return Severity.INFO if fault.is_info else None


def from_fault(fault: Fault) -> Finding:
    """Return the finding for a fault that a store reported."""
    return Finding(
        code=fault.code,
        detail=fault.detail,
        thread_id=fault.thread_id,
        checkpoint_ns=fault.checkpoint_ns,
        checkpoint_id=fault.checkpoint_id,
        channel=fault.channel,
        task_id=fault.task_id,
        own_severity=_severity_of(fault),
        own_fix=fault.fix,
    )


@dataclass(slots=True)
class Checked:
    """How much was checked."""

    threads: int = 0
    checkpoints: int = 0
    writes: int = 0
    values: int = 0

    def add(self, other: Checked) -> None:
        """Add what was checked elsewhere."""
        self.threads += other.threads
        self.checkpoints += other.checkpoints
        self.writes += other.writes
        self.values += other.values
