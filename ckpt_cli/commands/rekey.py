"""`ckpt rekey`: change the encryption of threads where they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from typer import Argument, Context, Option

from ckpt_backends.errors import CkptError, PartlyDone, StoreChanged, UsageError
from ckpt_backends.protocol import Store
from ckpt_backends.transfer.form import Language
from ckpt_cli.api.answer import Answer
from ckpt_cli.apply.copy import rekey_thread
from ckpt_cli.apply.recording import writable_store
from ckpt_cli.commands import arguments
from ckpt_cli.commands.changing import confirm
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.core.copying import RekeyReport
from ckpt_cli.diagnostics import progress
from ckpt_cli.ending import Ended
from ckpt_cli.options import DryRun, Match, Where, Yes
from ckpt_cli.plans.copy import RekeySide, check_keys, planned_rekey, rekey_side
from ckpt_cli.queries.stores import language_of
from ckpt_cli.render.copy import REKEYED
from ckpt_cli.render.values import counted
from ckpt_cli.session import Session

_CANNOT_UNDO = "rekey again with the former key"


@plannable("rekey", again=("new_key_file",))
def rekey(
    ctx: Context,
    threads: Annotated[
        list[str] | None, Argument(metavar="THREAD", help="Threads to rekey.")
    ] = None,
    match: Match = None,
    where: Where = None,
    everything: Annotated[bool, Option("--all", help="Rekey all threads.")] = False,
    new_key_file: arguments.NewKeyFile = None,
    encrypt: arguments.Encrypt = False,
    decrypt: arguments.Decrypt = False,
    vacuum: Annotated[
        bool, Option("--vacuum", help="Remove old values from unused space, too (VACUUM).")
    ] = False,
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Encrypt threads with another key, or decrypt them.

    Gives the values that LangGraph's EncryptedSerializer stores another key, encrypts values that
    are stored unencrypted (--encrypt), or decrypts all values (--decrypt). Ids, channel names and
    what the saver itself never encrypts stay readable.

    Stop the agents first. Each thread is written in one transaction, if the engine has
    transactions, and is read back. After a stop, run the same command again with both keys: it
    leaves what is done. If no key opens a value, its thread is not written.

    ```
    ckpt -s agent.db --aes-key-file old.key rekey --all --new-key-file new.key
    ckpt -s agent.db rekey --all --encrypt --new-key-file new.key
    ckpt -s agent.db --aes-key-file old.key rekey user-42 --decrypt --dry-run
    ```
    """
    session: Session = ctx.obj
    if not (new_key_file or encrypt or decrypt):
        raise UsageError("nothing to do", hint="add --new-key-file FILE, --encrypt or --decrypt")
    arguments.check_one_way(threads, match, where, everything=everything)
    keys = arguments.keys_of(session, new_key_file, encrypt=encrypt, decrypt=decrypt)
    assert keys is not None  # noqa: S101 - the options were checked
    side = rekey_side(session.rows, language_of(session.store) or Language.PYTHON, keys)
    ids = [one.thread_id for one in arguments.threads_to_change(session, threads, match, where)]
    if session.review is not None:
        for thread_id in progress(ids, total=len(ids), label="reading"):
            session.review.see_thread(thread_id, rows=session.rows)
    report = RekeyReport(side.store.describe().url, dry_run)
    if dry_run:
        for thread_id in progress(ids, total=len(ids), label="reading"):
            report.add(planned_rekey(side, thread_id))
        session.show(Answer(report, REKEYED))
        session.note_dry_run()
        return
    check_keys(side, progress(ids, total=len(ids), label="checking the key"))
    if not yes:
        verb = "Encrypt anew" if new_key_file and not encrypt else "Encrypt"
        confirm(
            f"{'Decrypt' if decrypt else verb} {counted(len(ids), 'thread')} of '{report.store}'?"
        )
    readers = (session.store, session.rows)
    _rekey(session, side, readers, ids, report, vacuum=vacuum)
    session.show(Answer(report, REKEYED))
    _end(report)


def _rekey(
    session: Session,
    side: RekeySide,
    readers: Sequence[Store],
    ids: Sequence[str],
    report: RekeyReport,
    *,
    vacuum: bool,
) -> None:
    """Change the threads; print what was done also after an error or a signal."""
    recorder = session.recorder.operation("rekey", cannot_undo=_CANNOT_UNDO)
    with recorder as recording, writable_store(session.names.store_url, readers) as writable:
        try:
            for thread_id in progress(ids, total=len(ids), label="rekeying"):
                report.add(rekey_thread(side, writable, recording, thread_id))
        except (CkptError, KeyboardInterrupt, Ended) as error:
            # The writer empties the log when it is closed, which waits for readers.
            for reader in readers:
                reader.refresh()
            if not report.threads:
                raise
            session.show(Answer(report, REKEYED))
            left = len(ids) - report.number - len(report.skipped)
            session.note(
                f"stopped: {counted(left, 'thread')} left; run the same command again with both"
                " keys"
            )
            if isinstance(error, CkptError):
                raise PartlyDone(f"stopped: {error.message}", hint=error.hint) from error
            raise
        for reader in readers:
            reader.refresh()
        if vacuum:
            writable.vacuum()
        if report.counts.rekeyed and (kept := writable.finish_removal()):
            session.note(kept)


def _end(report: RekeyReport) -> None:
    """Raise the error that tells about threads that are not finished, if there are any."""
    if not report.skipped:
        return
    first = report.skipped[0]
    reason = f"thread '{first.thread_id}': {first.skipped}"
    if report.number:
        number = counted(len(report.skipped), "thread")
        raise PartlyDone(f"{number} not finished; {reason}", hint="stop the agents first")
    raise StoreChanged(reason, hint="stop the agents first")
