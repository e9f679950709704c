"""Run a command and print what it used: launch.py OUTPUT SECONDS COMMAND...

This is a separate and small process, because Linux counts the memory of the process that starts a
command as the command's own until the command uses more.
"""

import json
import os
import signal
import sys
from time import perf_counter


def main(output: str, limit: str, *command: str) -> None:
    writing = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    into = [(os.POSIX_SPAWN_OPEN, 1, output, writing, 0o600)]
    started = perf_counter()
    process = os.posix_spawn(command[0], command, os.environ, file_actions=into)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(process, signal.SIGKILL))
    signal.alarm(int(limit))
    _, status, usage = os.wait4(process, 0)
    seconds = perf_counter() - started
    code = os.waitstatus_to_exitcode(status)
    cpu = usage.ru_utime + usage.ru_stime
    print(json.dumps({"seconds": seconds, "cpu": cpu, "kib": usage.ru_maxrss, "code": code}))


if __name__ == "__main__":
    main(*sys.argv[1:])
