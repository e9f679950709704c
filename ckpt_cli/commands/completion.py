"""`ckpt completion`: print or install the completion script of a shell."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Context, Option

from ckpt_backends import shell as shell_text
from ckpt_backends.errors import Refused, UsageError, reason_of
from ckpt_backends.files import writing
from ckpt_cli.session import Session

Shell = Literal["bash", "zsh", "fish"]

SCRIPTS: Mapping[str, str] = {"bash": "ckpt.bash", "zsh": "_ckpt", "fish": "ckpt.fish"}
"""By shell, the file in `ckpt_cli/completions`."""
_CALLS_COMPINIT = re.compile(r"^[^#\n]*\b(compinit|oh-my-zsh\.sh)\b", re.MULTILINE)


def completion(
    ctx: Context,
    shell: Annotated[
        Shell | None, Argument(metavar="SHELL", help="bash, zsh or fish. [default: from $SHELL]")
    ] = None,
    install: Annotated[
        bool, Option("--install", help="Write the script to your folder for completions.")
    ] = False,
) -> None:
    """Print or install the completion script of a shell.

    Completes commands, options, thread ids, refs, namespaces and channels; those of a store come
    from -s or CKPT_STORE. With --install, writes one file, and says how to load it; without, prints
    the script. Changes no settings of the shell.

    ```
    ckpt completion bash --install
    ckpt completion zsh --install
    ckpt completion fish --install
    source <(ckpt completion bash)     # for this shell only
    ```
    """
    session: Session = ctx.obj
    name = shell or _login_shell(os.environ)
    script = (files("ckpt_cli") / "completions" / SCRIPTS[name]).read_bytes()
    if not install:
        session.output.verbatim(script.decode())
        return
    path = user_file(name, os.environ)
    what = "wrote" if _install(path, script) else "up to date:"
    session.note(f"{what} '{path}'; {_how_to_load(name, path, os.environ)}")


def _login_shell(environ: Mapping[str, str]) -> str:
    name = Path(environ.get("SHELL", "")).name
    if name not in SCRIPTS:
        found = f"SHELL is '{environ['SHELL']}'" if environ.get("SHELL") else "SHELL is not set"
        raise UsageError(
            f"cannot tell your shell: {found}", hint="name it: ckpt completion bash, zsh or fish"
        )
    return name


def user_file(shell: str, environ: Mapping[str, str]) -> Path:
    """Return the file in which a shell, or its package for completions, looks for ours.

    Zsh has no such folder of its own, so that the user has to add this one to `fpath`.
    """
    data = _base(environ, "XDG_DATA_HOME", ".local/share")
    if shell == "bash":
        own = environ.get("BASH_COMPLETION_USER_DIR", "").partition(":")[0]
        return (Path(own) if own else data / "bash-completion") / "completions" / "ckpt"
    if shell == "zsh":
        return data / "zsh" / "site-functions" / "_ckpt"
    return _base(environ, "XDG_CONFIG_HOME", ".config") / "fish" / "completions" / "ckpt.fish"


def _base(environ: Mapping[str, str], variable: str, default: str) -> Path:
    """Return a folder of the XDG specification, which says to ignore relative paths."""
    named = Path(environ.get(variable, ""))
    return named if named.is_absolute() else Path.home() / default


def _install(path: Path, script: bytes) -> bool:
    """Write the script. Returns False if the file has it already."""
    try:
        # pipx links to the script of the package that it installed.
        if path.is_file() and path.read_bytes() == script:
            return False
        if path.is_symlink():
            raise Refused(
                f"cannot write '{path}': it is a symbolic link to '{path.readlink()}'",
                hint=f"remove the link: {shell_text.command('rm', str(path))}",
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        with writing(path) as file:
            file.write(script)
    except OSError as error:
        reason = reason_of(error)
        raise UsageError(
            f"cannot write '{path}': {reason}", hint="redirect: ckpt completion SHELL > FILE"
        ) from error
    return True


def _how_to_load(shell: str, path: Path, environ: Mapping[str, str]) -> str:
    """Say what makes a shell load the script."""
    if shell == "fish":
        return "fish loads it by itself"
    if shell == "bash":
        line = shell_text.command("source", str(path))
        return (
            "new shells load it if they load bash-completion, "
            f"else add this line to ~/.bashrc; for this shell, run it: {line}"
        )
    settings = Path(environ.get("ZDOTDIR") or Path.home()) / ".zshrc"
    text = _text_of(settings)
    if str(path.parent) in text:
        return "new shells load it"
    line = f"fpath=({shell_text.command(str(path.parent))} $fpath)"
    if _CALLS_COMPINIT.search(text):
        return f"add this line to {settings}, before compinit: {line}"
    return f"add this line to {settings}: {line}; autoload -Uz compinit && compinit"


def _text_of(settings: Path) -> str:
    """Return a file of settings, with the home folder written out."""
    try:
        text = settings.read_text("utf-8", "replace")
    except OSError:
        return ""
    return text.replace("$HOME", str(Path.home())).replace("~", str(Path.home()))
