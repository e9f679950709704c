"""One run of `ckpt`: its settings, store, clock and output."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ckpt_backends import shell
from ckpt_backends.errors import InsecureConnection, UsageError
from ckpt_cli.config.store_names import StoreNames
from ckpt_cli.render.text import color_chosen

if TYPE_CHECKING:
    from ckpt_backends.protocol import ScanObserver, Store
    from ckpt_backends.url import StoreUrl
    from ckpt_cli.api.answer import Answer, AnswerList
    from ckpt_cli.api.store import StoreHandle
    from ckpt_cli.api.thread import CheckpointHandle, ThreadHandle
    from ckpt_cli.apply.recording import Recorder
    from ckpt_cli.lazy import Group
    from ckpt_cli.output import Output
    from ckpt_cli.plans.saved_plan import PlanReview
    from ckpt_cli.reading.executor import Executor
    from ckpt_cli.reading.store import Opening
    from ckpt_cli.reading.target import TargetArguments
    from ckpt_cli.reading.workers import LostThread
    from ckpt_cli.render.table import Column


class Consent(NamedTuple):
    """What a person said about a change before it was planned."""

    dry_run: bool = False
    """Whether the plan is only shown, or saved."""
    yes: bool = False
    """Whether it is carried out without a question."""
    reason: str | None = None
    """Is recorded with it."""


class Session:
    """Everything a command works with. The parser stores global options in `settings`."""

    def __init__(self, argv: Sequence[str] = ()) -> None:
        color_chosen.set("auto")
        self.argv = argv
        """The arguments of this run."""
        self.parser: Group | None = None
        """What parsed them."""
        self.settings: dict[str, Any] = {}
        self._store: Store | None = None
        self.names = StoreNames(self.settings, self.note)
        self._lost: list[LostThread] = []
        self.review: PlanReview | None = None
        """The plan that this run saves, or that it applies; None in other runs."""
        self.consent = Consent()
        """Of a command that changes a store."""

    @cached_property
    def now(self) -> datetime:
        """Start time of this run, in UTC; of a run that applies a plan, when that was made.

        With --as-of, that moment: ages are those of then.
        """
        return self.as_of or datetime.now(UTC)

    @cached_property
    def as_of(self) -> datetime | None:
        """The moment as of which the store is read; None for now. Raises `UsageError`."""
        from ckpt_cli.core.times import parse_time

        text = self.settings.get("as_of")
        return None if text is None else parse_time(text, datetime.now(UTC), self.zone)

    def restart_clock(self) -> None:
        """Take the current time as the start of this run: its answer is printed anew."""
        self.__dict__.pop("now", None)

    @cached_property
    def zone(self) -> tzinfo:
        """Time zone of all times that this run prints or reads."""
        from ckpt_cli.config.machine import local_zone

        return UTC if self.settings.get("utc") else local_zone()

    def time(self, text: str | None) -> datetime | None:
        """Parse the time of an option, such as `2h`; None if it was not given."""
        from ckpt_cli.core.times import parse_time

        return None if text is None else parse_time(text, self.now, self.zone)

    @cached_property
    def output(self) -> Output:
        """The writer of the answer."""
        from ckpt_cli.diagnostics import no_progress
        from ckpt_cli.output import Output

        return Output(
            self.settings.get("output", "auto"),
            color=self.settings.get("color", "auto"),
            pager=not self.settings.get("no_pager"),
            no_progress=no_progress,
            clock=lambda: (self.now, self.zone),
        )

    def show(self, answer: Answer[Any] | AnswerList[Any], **options: Any) -> None:
        """Print an answer as the user chose. `options` say how its text is drawn."""
        view, output = answer.view, self.output
        output.document(
            answer.to_json,
            lambda: view.lines(answer.found, output.ui, **options),
            rows=lambda: view.rows(answer.found),
            columns=view.columns,
        )

    def show_list(
        self,
        answers: Iterable[Answer[Any]],
        columns: Sequence[Column],
        *,
        rest: Callable[[], str] | None = None,
    ) -> int:
        """Print answers as a list, and return their number. `rest` is as in `Output.records`."""
        return self.output.records((one.to_json() for one in answers), columns, rest=rest)

    @property
    def store(self) -> Store:
        """The store of this run, opened for reading; closed when the run ends."""
        if self._store is None:
            self._store = self._opened()
            if self.settings.get("verbose"):
                info = self._store.describe()
                self.note(f"{info.url}: {info.layout}, {info.saver}, {info.engine}")
            for text in self._store.notes():
                self.note(self.names.without_values(text))
            if self.as_of is not None:
                self._note_removed(self.as_of)
        return self._store

    @cached_property
    def handle(self) -> StoreHandle:
        """The same store as Python code sees it; the commands that read answer through it."""
        from ckpt_cli.api.store import StoreHandle

        return StoreHandle(self.store, self)

    def thread(self, thread_id: str | None) -> ThreadHandle:
        """Return a thread by its id; the newest one if None. Raises `NotFound`."""
        if thread_id is not None:
            return self.handle.thread(thread_id)
        newest = self.handle.newest()
        self.note(f"using the newest thread, '{newest.id}'")
        return newest

    def checkpoint(self, words: TargetArguments) -> CheckpointHandle:
        """Return the checkpoint that the words of the command line name.

        Raises `NotFound`, `Ambiguous` or `UsageError`.
        """
        return self.handle.checkpoint(self.handle.named(words))

    def two_checkpoints(
        self, words: TargetArguments, first: str | None, second: str | None
    ) -> tuple[CheckpointHandle, CheckpointHandle | None]:
        """Return the checkpoints to compare; the second is None if only one is named."""
        from ckpt_cli.reading.target import find_two

        one, other = find_two(self.store, words, first, second, self.now, self.zone, self.note)
        wrap = self.handle.checkpoint_of
        return wrap(one), None if other is None else wrap(other)

    @cached_property
    def opening(self) -> Opening:
        """Everything that is needed to open the store of this run."""
        from ckpt_cli.api.answer import opening_of

        return opening_of(self.names, self.settings)._replace(as_of=self.as_of)

    def executor(
        self, jobs: int = 1, cluster: str | None = None, *, opening: Opening | None = None
    ) -> Executor:
        """Return what works on many threads of this store, or of one that is opened otherwise."""
        from ckpt_cli.reading.executor import Executor

        return Executor(opening or self.opening, jobs, cluster, self._lost.extend)

    def check_complete(self) -> None:
        """Raise `PartlyDone` if the answer leaves out threads because they could not be read."""
        if self._lost:
            from ckpt_cli.reading.workers import refuse_lost

            for one in self._lost:
                self.note(f"left out thread '{one.thread_id}': {one.reason}")
            refuse_lost(self._lost)

    def open_other(self, url: StoreUrl) -> Store:
        """Open another store with this run's key and redaction; the caller closes it."""
        return self.opening._replace(url=url).open(self.note, self._observer)

    @cached_property
    def rows(self) -> Store:
        """The same store opened again, without decryption or redaction: for copying its bytes."""
        from ckpt_backends.registry import open_store

        store = open_store(self.names.store_url)
        if store.lists_by_scan:
            store.observe_scans(self._observer())
        return store

    @cached_property
    def editable(self) -> Store:
        """The same rows, decrypted: for plans that change bytes, which are encrypted again."""
        from ckpt_backends.encryption import DecryptingStore

        return DecryptingStore(self.rows, self.opening.keys(), lambda _: None)

    @cached_property
    def recorder(self) -> Recorder:
        """Records what this run changes in its store."""
        return self.recorder_of(self.names.store_url)

    def recorder_of(self, url: StoreUrl) -> Recorder:
        """Return what records changes of another store, such as the target of a copy."""
        self.changes_store()
        from ckpt_cli.apply.recording import Recorder
        from ckpt_cli.operations.log import user_name

        command, at = self.command, self.now
        if self.review is not None:
            self.review.check_complete()
            command, at = self.review.header.command, datetime.now(UTC)
        return Recorder(url, user_name(), command, at, self.note, self.names.audit)

    @property
    def command(self) -> str:
        """The command line of this run, without secrets and values."""
        from ckpt_cli.lazy import command_text

        return "ckpt" if self.parser is None else command_text(self.parser, self.argv)

    def settle(self) -> None:
        """Record what killed runs did to the store of this run, before it is changed again."""
        from ckpt_cli.apply.recording import settle

        self.changes_store()
        settle(self.names.store_url, self.note)

    def changes_store(self) -> None:
        """Require that the store is named. Raises `UsageError` if it was only found."""
        self.names.must_be_named = True
        self.names.check_named()

    def _note_removed(self, moment: datetime) -> None:
        """Name what was removed since a moment: it is missing in the store as of then."""
        from ckpt_cli.operations.log import OperationLog, place_of
        from ckpt_cli.queries.operations import removals_since

        try:
            log = OperationLog.of_user()
        except UsageError:
            return
        for one in removals_since(log, place_of(self.names.store_url), moment):
            threads = "1 thread" if one.number == 1 else f"{one.number} threads"
            self.note(
                f"missing here: what a run of ckpt ({one.action}) removed of {threads} on"
                f" {one.at.astimezone(self.zone):%Y-%m-%d %H:%M}, operation {one.op}"
            )

    def _note_unfinished(self) -> None:
        from ckpt_cli.config.machine import state_folder

        try:
            running = state_folder("operations") / "running"
        except UsageError:
            return
        try:
            if not os.listdir(running):
                # Most of the time: the rest takes 10 ms to import.
                return
        except OSError:  # Nothing was ever changed here, or this user may not look.
            return
        from ckpt_cli.operations.log import OperationLog, place_of, unfinished

        ask = shell.command("ckpt", *self.names.words, "ops", "list")
        for one in unfinished(OperationLog.of_user(), place_of(self.names.store_url)):
            self.note(
                f"a run of ckpt ({one.action}) was stopped before it recorded what it did;"
                f" `{ask}` finds out"
            )

    def _observer(self) -> ScanObserver:
        from ckpt_cli.diagnostics import ScanBar

        return ScanBar(lambda report: self.note(self.names.without_values(report)))

    def _opened(self) -> Store:
        from ckpt_cli.api.answer import open_named

        return open_named(self.names, self.opening, self.note, self._observer)

    def note(self, text: str) -> None:
        """Print a note on stderr, unless --quiet is given."""
        if not self.settings.get("quiet"):
            from ckpt_cli import diagnostics

            diagnostics.note(self.names.with_store(text))

    def note_dry_run(self, done: str = "written") -> None:
        """Note that nothing was done, unless the plan is saved: another note says where."""
        if self.review is None or not self.review.is_saved:
            self.note(f"dry run: nothing was {done}")

    def warn(self, text: str) -> None:
        """Print a warning on stderr, even with --quiet."""
        from ckpt_cli import diagnostics

        diagnostics.warn(text)

    def show_warning(
        self, message: Warning | str, category: type[Warning], *_: object, **__: object
    ) -> None:
        """Print the warnings of the storage library, and none of other libraries."""
        if issubclass(category, InsecureConnection):
            self.warn(self.names.without_values(str(message)))

    def close(self) -> None:
        """Close the store. Names operations that killed runs left without a record."""
        if self._store is not None:
            self._note_unfinished()
        if self._store is not None:
            self._store.close()
        if "rows" in self.__dict__:
            self.rows.close()
