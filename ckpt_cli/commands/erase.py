"""`ckpt erase`: erase a person, threads, or single values."""

from __future__ import annotations

from ckpt_cli.commands.erase_options import EraseOptions
from ckpt_cli.commands.plan_out import plannable
from ckpt_cli.options import takes
from ckpt_cli.session import Session


@plannable("erase", again=("memory", "receipt"))
@takes(EraseOptions)
def erase(session: Session, options: EraseOptions) -> None:
    """Erase threads, or a person, with all that was made from them.

    Removes the threads in all namespaces, the sessions and items of long-term memory that came from
    them or are the person's, the archives that ckpt wrote of them, and what ckpt recorded about
    them. Then removes the old bytes as far as the engine can. Says place by place what is gone,
    what is left and why. Lists where the person is named elsewhere, and leaves that. A thread is
    the person's if any of its checkpoints matches --subject.

    It cannot be undone. A receipt holds no id and no value; --verify checks later that nothing is
    back. Stop the agents first: a thread that changes meanwhile is left, and the exit code is 7.
    Run the same command again after a stop.

    --value overwrites one leaked value by "[erased]" in all checkpoints and writes of its thread,
    which keeps its ids and goes on. This rewrites stored history, as no other command does.

    ```
    ckpt -s agent.db erase --subject 'metadata.user = "anna"' --dry-run
    ckpt -s agent.db erase --subject 'metadata.user = "anna"' --memory-namespace 'users/{user}'
    ckpt -s agent.db erase user-42 --archives backups --receipt receipt.json
    ckpt -s agent.db erase --verify receipt.json
    ckpt -s agent.db erase --value 'user-42:messages[2].content'
    ckpt -s agent.db secrets -o ndjson | ckpt -s agent.db erase --values-from - --yes
    ```
    """
    options.check()
    if options.names_values:
        _overwrite(session, options)
        return
    from ckpt_cli.commands.erase_person import erase_person, verify_receipt

    if options.verify is not None:
        verify_receipt(session, options, options.verify)
    else:
        erase_person(session, options)


def _overwrite(session: Session, options: EraseOptions) -> None:
    """Overwrite the values that the options name."""
    from ckpt_cli.commands.erase_value import erase_values

    erase_values(
        session,
        options.value or (),
        options.values_from,
        ns=options.ns,
        dry_run=options.dry_run,
        yes=options.yes,
        rewrite=options.rewrite,
    )
