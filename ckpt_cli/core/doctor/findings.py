"""Findings: their codes, and what each means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ckpt_backends import shell
from ckpt_backends.model import CheckpointKey, Fault

# All codes of findings: what each means, how bad it is, and what mends it.
#
# The table in docs/doctor.md is made from this one.


class Severity(StrEnum):
    """How bad a finding is. Errors set the exit code 1; with --strict, warnings do, too."""

    ERROR = "error"
    """A saver cannot load or resume the thread, or would load something wrong."""
    WARNING = "warning"
    """It may cause harm later, or shows that something went wrong."""
    INFO = "info"
    """The state of the engine, or a trace of regular maintenance."""


class Code(NamedTuple):
    """One kind of finding."""

    severity: Severity
    what: str
    """What is found, as one sentence without a full stop."""
    cause: str
    """How it usually comes about, as one sentence without a full stop."""
    fix: str = ""
    """The command that may mend it, without `ckpt`. THREAD and TARGET stand for the thread and for
    the checkpoint, GRACE for the age up to which rows are left alone. Printed only where a plan
    shows that it mends the finding (`ckpt_cli/plans/fixes.py`), and never one that only shows."""
    look: str = ""
    """A command that shows more, in the same form, for findings that no command mends."""
    is_deep: bool = False
    """Whether only `--deep` finds all of them; without it, those at heads may be found."""


_DAMAGE = "a row was deleted or changed by hand, by a failing disk, or by an unfinished copy"
_API = "a run was stopped between a tool call and its result, or the messages were edited"

CODES: Mapping[str, Code] = {
    "value-missing": Code(
        Severity.ERROR,
        "a checkpoint names a value that is not stored",
        _DAMAGE,
        "repair values THREAD",
        look="show TARGET",
        is_deep=True,
    ),
    "value-unreadable": Code(
        Severity.ERROR,
        "a stored value cannot be decoded",
        _DAMAGE,
        "repair values THREAD",
        look="show TARGET",
        is_deep=True,
    ),
    "value-replaced": Code(
        Severity.ERROR,
        "LangGraph.js stored the error text of its serializer in the place of a value",
        "the value held what JSON cannot, such as a BigInt; earlier checkpoints have the last one",
        is_deep=True,
    ),
    "body-unreadable": Code(
        Severity.ERROR,
        "a checkpoint or its metadata cannot be decoded, or lacks a key that savers need",
        _DAMAGE,
        "rollback THREAD ~1",
        look="show TARGET --raw",
        is_deep=True,
    ),
    "state-mismatch": Code(
        Severity.WARNING,
        "the stored state is not what the tasks wrote",
        "a row was changed by hand, or two runs of one thread were mixed up",
        look="diff --writes TARGET",
        is_deep=True,
    ),
    "delta-unanchored": Code(
        Severity.ERROR,
        "a DeltaChannel has neither a snapshot nor the writes to rebuild its value",
        "checkpoints or writes that it depends on were deleted",
        look="history THREAD",
        is_deep=True,
    ),
    "rows-hidden": Code(
        Severity.ERROR,
        "rows may be hidden from this user, so what looks missing or orphaned may be there",
        "row-level security, or a view in the place of a table; nothing that removes may run",
    ),
    "file-damaged": Code(
        Severity.ERROR,
        "the engine finds its own file damaged, so rows may be missing or wrong",
        "the disk failed, or the file was copied or overwritten while it was in use",
    ),
    "keys-evicted": Code(
        Severity.WARNING,
        "the server removed keys because its memory was full, so parts of threads may be gone",
        "`maxmemory` is reached, and `maxmemory-policy` lets the server remove keys of checkpoints",
    ),
    "saver-limit": Code(
        Severity.ERROR,
        "a setting or collation of the server keeps the official saver from loading",
        "the state outgrew the setting, or the tables were made with other defaults",
    ),
    "tool-call-unanswered": Code(
        Severity.ERROR,
        "a message calls a tool, others follow, and none holds the result; model APIs refuse this",
        _API,
        "repair messages THREAD",
        look="messages THREAD",
    ),
    "tool-result-orphaned": Code(
        Severity.ERROR,
        "a message holds the result of a tool call that no message before it makes",
        "messages were trimmed or summarized without their pairs",
        "repair messages THREAD",
        look="messages THREAD",
    ),
    "message-id-duplicate": Code(
        Severity.ERROR,
        "two messages have the same id, so an update would replace one of them",
        "messages were merged without `add_messages`, or copied by hand",
        look="messages THREAD",
    ),
    "plaintext-among-encrypted": Code(
        Severity.ERROR,
        "a value is stored unencrypted in an encrypted thread",
        "the agent ran once without its key, or someone wrote to the store",
        look="show TARGET",
        is_deep=True,
    ),
    "type-dangerous": Code(
        Severity.ERROR,
        "a saver that decodes this value would call a dangerous function",
        "someone wrote to the store to run code in the agent",
        look="show TARGET",
        is_deep=True,
    ),
    "branches-share-value": Code(
        Severity.ERROR,
        "two branches name one stored value, and only one of them wrote it",
        "the saver numbers versions, and time travel used the same numbers again",
        look="diff --writes TARGET",
        is_deep=True,
    ),
    "step-uncommitted": Code(
        Severity.WARNING,
        "all tasks of the last step finished, and no checkpoint followed",
        "the agent was stopped between the last write and the checkpoint, and invoke(None)"
        " continues; or the checkpoint cannot be saved, and each invoke(None) fails",
        look="show TARGET",
    ),
    "resume-stale": Code(
        Severity.WARNING,
        "a stored answer would be used for another question",
        "invoke(None) after an answer that was already used (langgraph issue 8837)",
        "repair writes THREAD",
        look="interrupts THREAD",
    ),
    "answer-unused": Code(
        Severity.WARNING,
        "an answer is stored that no task will use",
        "it was sent twice, to a thread that asks nothing, or after an answer with which the node"
        " failed and which comes first",
        look="show THREAD",
    ),
    "head-not-newest": Code(
        Severity.WARNING,
        "the saver loads a checkpoint that has a successor",
        "a clock went backwards, or a pointer is old",
        "rollback TARGET",
        look="show THREAD --tree",
    ),
    "id-not-increasing": Code(
        Severity.WARNING,
        "a checkpoint has a smaller id than its parent, so it is not loaded as the newest",
        "a clock went backwards, or the id was made by hand",
        look="show THREAD --tree",
    ),
    "clock-ahead": Code(
        Severity.WARNING,
        "a checkpoint is dated in the future; savers that load the greatest id ignore later ones",
        "the clock of a machine was wrong",
        look="history THREAD",
    ),
    "parent-missing": Code(
        Severity.WARNING,
        "the parent of a checkpoint is not stored",
        "a row was deleted by hand; after a prune, it is only an info",
        look="history THREAD",
    ),
    "write-orphaned": Code(
        Severity.WARNING,
        "writes of a checkpoint that is not stored",
        "a thread or checkpoint was deleted while an agent was running",
        "gc --scope writes --grace GRACE",
        look="gc --scope writes --grace 1m --dry-run",
    ),
    "value-orphaned": Code(
        Severity.WARNING,
        "a stored value that no checkpoint names",
        "checkpoints were deleted without their values, or a save failed halfway",
        "gc --scope blobs --grace GRACE",
        look="gc --scope blobs --grace 1m --dry-run",
        is_deep=True,
    ),
    "namespace-orphaned": Code(
        Severity.WARNING,
        "checkpoints of a subgraph call whose root checkpoint is not stored",
        "the root checkpoint was deleted by hand",
        "gc --scope calls --grace GRACE",
        look="gc --scope calls --grace 1m --dry-run",
        is_deep=True,
    ),
    "memory-of-abandoned-branch": Code(
        Severity.WARNING,
        "a subgraph with `checkpointer=True` remembers what a branch did that the head left",
        "time travel, a rollback or an update to an earlier checkpoint; the next call goes on from"
        " the memory of the other branch",
        look="show THREAD --tree",
        is_deep=True,
    ),
    "messages-emptied": Code(
        Severity.WARNING,
        "an update left no messages, although its parent had some and nothing removed them",
        "update_state without a checkpointer of its own (langgraph issue 8653)",
        "rollback THREAD ~1",
        look="diff --writes TARGET",
        is_deep=True,
    ),
    "state-by-library": Code(
        Severity.WARNING,
        "releases of LangGraph read different messages from the same rows",
        "`REMOVE_ALL_MESSAGES` was written to a DeltaChannel; it counts since LangGraph 1.2.24",
        look="messages TARGET --library 1.2.23",
    ),
    "type-blocked": Code(
        Severity.WARNING,
        "LANGGRAPH_STRICT_MSGPACK refuses types that the store contains",
        "the types are not in `allowed_msgpack_modules`",
        look="doctor --types",
    ),
    "index-missing": Code(
        Severity.WARNING,
        "an index of the official saver is missing",
        "the index was dropped, its build was stopped, or the rows were copied without it",
    ),
    "schema-old": Code(
        Severity.WARNING,
        "a migration of the official saver is recorded as run, and what it made is missing",
        "a column was dropped, or the tables were restored from an older copy",
    ),
    "ttl-partial": Code(
        Severity.WARNING,
        "some keys of a thread expire, and others do not",
        "the TTL was changed, or set by hand",
    ),
    "index-stale": Code(
        Severity.WARNING,
        "an index or pointer disagrees with the rows, so the saver does not find them",
        "a key was deleted by hand, or an index was built after the rows",
    ),
    "tool-call-repeated": Code(
        Severity.INFO,
        "one tool was called with the same arguments 5 times or more in a conversation",
        "the agent goes round in circles, or waits for something by asking again",
        look="messages THREAD",
    ),
    "journal-hot": Code(
        Severity.INFO,
        "a rollback journal is left; the next writer undoes an unfinished transaction",
        "a process was killed in the middle of a transaction",
    ),
    "log-large": Code(
        Severity.INFO,
        "the write-ahead log is large",
        "a reader stays open, so it cannot be emptied",
    ),
    "space-free": Code(
        Severity.INFO,
        "much of the file or table is unused",
        "rows were deleted, and their space was not reclaimed",
    ),
    "document-near-limit": Code(
        Severity.INFO,
        "a document is close to the largest size that the engine stores",
        "state grows with each step",
        look="du THREAD",
    ),
}
"""By name, in the order of the documentation."""

UNTOLD_IF_HIDDEN = frozenset(
    {
        "value-missing",
        "delta-unanchored",
        "step-uncommitted",
        "parent-missing",
        "write-orphaned",
        "value-orphaned",
        "namespace-orphaned",
    }
)
"""What cannot be told if rows may be hidden or the file is damaged, and is not reported then: the
rows may be there."""
EXPLAINED_IF_EVICTED = frozenset(
    {
        "value-missing",
        "state-mismatch",
        "delta-unanchored",
        "step-uncommitted",
        "namespace-orphaned",
        "messages-emptied",
    }
)
"""What is reported as `keys-evicted`, once for each thread, if the server removes keys."""


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

    @classmethod
    def at(
        cls,
        key: CheckpointKey,
        code: str,
        detail: str,
        channel: str | None = None,
        task_id: str | None = None,
        *,
        own_severity: Severity | None = None,
        version: str | float | None = None,
    ) -> Finding:
        """Return a finding at a checkpoint."""
        return cls(
            **key._asdict(),
            code=code,
            detail=detail,
            channel=channel,
            task_id=task_id,
            own_severity=own_severity,
            version=None if version is None else str(version),
        )

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


def from_fault(fault: Fault) -> Finding:
    """Return the finding for a fault that a store reported."""
    own_severity = Severity.INFO if fault.is_info else None
    return Finding(
        code=fault.code,
        detail=fault.detail,
        thread_id=fault.thread_id,
        checkpoint_ns=fault.checkpoint_ns,
        checkpoint_id=fault.checkpoint_id,
        channel=fault.channel,
        task_id=fault.task_id,
        own_severity=Severity.ERROR if fault.is_error else own_severity,
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
