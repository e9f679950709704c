"""The entry point. Ctrl-C always ends the process silently with exit code 130.

SIGTERM and SIGHUP end it silently, too, by the same signal.
"""

import gc
import io
import os
import sys

_PARENT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if __name__ == "__main__" and not sys.flags.safe_path and sys.path[0] != _PARENT:
    # `python -m` looks for modules in the current folder first, where anybody may have put some.
    # If this package lies there, the folder is meant.
    del sys.path[0]

INTERRUPTED = 130
_OBJECTS = 100_000
"""New objects after which cycles are looked for. Most commands make fewer. Python's 700 take a
tenth of the time of a list.
"""

try:
    import signal
    from types import FrameType, TracebackType
except KeyboardInterrupt:
    os._exit(INTERRUPTED)


def main() -> None:
    """Run `ckpt` with the arguments of this process and exit with its exit code."""
    sys.excepthook = _uncaught
    sys.unraisablehook = _unraisable
    # A shell makes background commands ignore Ctrl-C.
    heeded = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    if heeded:
        signal.signal(signal.SIGINT, _leave)
    # Imports and answers make many objects that live on, and few cycles.
    gc.set_threshold(_OBJECTS, 50, 50)
    from ckpt_cli.ending import Ended, heed, leave, unwind
    from ckpt_cli.run import run

    _accept_any_text()
    code = INTERRUPTED
    try:
        if heeded:
            # From here on there may be a store to close.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        heed(unwind)
        code = run(sys.argv[1:], may_exit=True)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Ended as ended:
        leave(ended.number)
    finally:
        if heeded:
            signal.signal(signal.SIGINT, _leave)
        heed(leave)
    sql = sys.modules.get("ckpt_cli.sql.database")
    if sql is not None and sql.UNSTOPPED.is_set():
        # Python cannot end in order while a thread of DuckDB runs.
        _exit_now(code)
    # Python looks for cycles before it ends, among all objects; the memory is freed anyway.
    gc.freeze()
    sys.exit(code)


def _accept_any_text() -> None:
    """Make stdout and stderr accept any text, even if the parent process closed them."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    """Exit immediately: no store is open."""
    _exit_now()


def _exit_now(code: int = INTERRUPTED) -> None:
    if temporary := sys.modules.get("ckpt_backends.files"):
        temporary.remove_all()
    os._exit(code)


def _uncaught(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        _exit_now()
    sys.__excepthook__(kind, error, traceback)


def _unraisable(found: "sys.UnraisableHookArgs") -> None:
    if issubclass(found.exc_type, KeyboardInterrupt):
        _exit_now()
    if isinstance(found.exc_value, SystemExit):
        from ckpt_cli.ending import Ended, leave

        if isinstance(found.exc_value, Ended):
            leave(found.exc_value.number)
    sys.__unraisablehook__(found)


if __name__ == "__main__":
    main()
