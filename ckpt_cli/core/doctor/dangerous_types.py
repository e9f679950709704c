"""Which names are certainly dangerous: calling them runs or loads code, or changes files.

Only names of the standard library and of well-known packages are listed. A class of an application
is never listed, because agents store their own classes. Neither is a function that only reads.
"""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_cli.core.doctor.named_types import TypeName

_OS = (
    "_execvpe _exit abort chflags chmod chown chroot execl execle execlp execlpe execv execve"
    " execvp execvpe fchmod fchown fdopen fork forkpty ftruncate kill killpg lchflags lchmod lchown"
    " link makedirs mkdir mkfifo mknod open popen posix_spawn posix_spawnp putenv remove removedirs"
    " removexattr rename renames replace rmdir setegid seteuid setgid setuid setxattr spawnl"
    " spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe startfile symlink system truncate"
    " unlink unsetenv write"
)
_DEBUGGER = "Bdb.run Bdb.runcall Bdb.runctx Bdb.runeval"
_LOADERS = "Unpickler Unpickler.load _Unpickler _load _loads load loads"
_SOCKET = "SocketType create_connection create_server fromfd socket socketpair"

NAMES: Mapping[str, str] = {
    # Run or load Python code.
    "builtins": "__import__ breakpoint compile delattr eval exec execfile exit input open quit"
    " setattr",
    "_frozen_importlib": "__import__ _gcd_import _load",
    "_imp": "create_builtin create_dynamic exec_builtin exec_dynamic",
    "_interpreters": "call exec run_func run_string",
    "_io": "FileIO open open_code",
    "_thread": "start_new start_new_thread interrupt_main",
    "_xxsubinterpreters": "run_string",
    "atexit": "register",
    "bdb": _DEBUGGER,
    "cProfile": "Profile.run Profile.runctx run runctx",
    "code": "InteractiveConsole.push InteractiveInterpreter.runcode"
    " InteractiveInterpreter.runsource interact",
    "codecs": "open",
    "codeop": "compile_command",
    "compileall": "compile_dir compile_file compile_path",
    "doctest": "debug debug_script debug_src testfile testmod testsource",
    "ensurepip": "_run_pip bootstrap",
    "faulthandler": "_read_null _sigabrt _sigfpe _sigsegv _stack_overflow",
    "imp": "load_compiled load_dynamic load_module load_package load_source",
    "importlib": "__import__ import_module reload",
    "importlib._bootstrap": "__import__ _gcd_import _load",
    "importlib.machinery": "ExtensionFileLoader.load_module SourceFileLoader.load_module"
    " SourcelessFileLoader.load_module",
    "io": "FileIO open open_code",
    "lib2to3.pgen2.grammar": "Grammar.loads",
    "lib2to3.pgen2.pgen": "ParserGenerator.make_label",
    "logging.config": "dictConfig fileConfig listen",
    "marshal": "load loads",
    "multiprocessing.connection": "Client Listener",
    "multiprocessing.util": "spawnv_passfds",
    "pdb": "Pdb.run Pdb.runcall Pdb.runctx Pdb.runeval post_mortem run runcall runctx runeval"
    " set_trace",
    "pickle": _LOADERS,
    "_pickle": "Unpickler load loads",
    "pkgutil": "resolve_name",
    "platform": "popen",
    "profile": "Profile.run Profile.runctx run runctx",
    "py_compile": "compile",
    "pydoc": "apropos browse cli locate pipepager safeimport tempfilepager",
    "runpy": "_run_code _run_module_as_main _run_module_code run_module run_path",
    "shelve": "DbfilenameShelf open",
    "site": "addpackage addsitedir execsitecustomize execusercustomize main",
    "sys": "_clear_type_cache breakpointhook exit setprofile setrecursionlimit settrace",
    "test.support.script_helper": "assert_python_ok run_python_until_end spawn_python",
    "timeit": "Timer.repeat Timer.timeit main repeat timeit",
    "trace": "Trace.run Trace.runctx Trace.runfunc",
    "types": "CodeType FunctionType",
    "venv": "create main",
    "zipapp": "create_archive",
    "zipimport": "zipimporter.load_module",
    # Run programs or machine code.
    "_ctypes": "FreeLibrary LoadLibrary call_cdeclfunction call_function dlclose dlopen dlsym",
    "_posixsubprocess": "fork_exec",
    "_winapi": "CreateProcess TerminateProcess",
    "commands": "getoutput getstatusoutput",
    "ctypes": "CDLL LibraryLoader.LoadLibrary OleDLL PyDLL WinDLL memmove memset string_at"
    " wstring_at",
    "ctypes.util": "find_library",
    "distutils.spawn": "spawn",
    "os": _OS,
    "posix": _OS,
    "nt": _OS,
    "popen2": "popen2 popen3 popen4",
    "pty": "fork master_open slave_open spawn",
    "signal": "alarm pthread_kill raise_signal setitimer signal",
    "subprocess": "Popen _args_from_interpreter_flags call check_call check_output getoutput"
    " getstatusoutput run",
    "webbrowser": "open open_new open_new_tab",
    # Change files.
    "distutils.dir_util": "copy_tree create_tree mkpath remove_tree",
    "distutils.file_util": "copy_file move_file write_file",
    "dbm": "open",
    "dbm.dumb": "open",
    "pathlib": "Path.chmod Path.mkdir Path.open Path.rename Path.replace Path.rmdir Path.touch"
    " Path.unlink Path.write_bytes Path.write_text",
    "shutil": "_rmtree_unsafe chown copy copy2 copyfile copyfileobj copymode copystat copytree"
    " make_archive move rmtree unpack_archive",
    "sqlite3": "connect",
    "_sqlite3": "connect",
    "tarfile": "TarFile.open open",
    "tempfile": "NamedTemporaryFile mkdtemp mkstemp",
    "zipfile": "ZipFile",
    # Connect to servers.
    "_socket": _SOCKET,
    "ftplib": "FTP FTP_TLS",
    "imaplib": "IMAP4 IMAP4_SSL",
    "poplib": "POP3 POP3_SSL",
    "smtplib": "LMTP SMTP SMTP_SSL",
    "socket": _SOCKET,
    "ssl": "get_server_certificate",
    "telnetlib": "Telnet",
    "urllib.request": "urlopen urlretrieve",
    # Packages.
    "cloudpickle": "load loads",
    "cloudpickle.cloudpickle": "load loads",
    "dill": "load load_module load_session loads",
    "dill._dill": "load load_session loads",
    "httpx": "delete get patch post put request stream",
    "joblib": "load",
    "joblib.numpy_pickle": "load",
    "jsonpickle": "decode loads",
    "numpy": "load",
    "numpy.lib.npyio": "load",
    "numpy.lib._npyio_impl": "load",
    "numpy.testing._private.utils": "runstring",
    "numpy.f2py.crackfortran": "_eval_length getlincoef param_eval",
    "pandas": "eval read_pickle",
    "pandas.core.computation.eval": "eval",
    "pandas.io.pickle": "read_pickle",
    "pip": "main",
    "pip._internal": "main",
    "requests": "delete get patch post put request",
    "requests.api": "delete get patch post put request",
    "setuptools.sandbox": "execfile run_setup",
    "torch": "load",
    "torch.hub": "load",
    "torch.serialization": "load",
    "torch._inductor.codecache": "compile_file",
    "yaml": "full_load full_load_all load load_all unsafe_load unsafe_load_all",
}
"""By module: functions, classes that act when they are created, and methods."""
_DANGEROUS = frozenset(
    f"{module}.{name}" for module, names in NAMES.items() for name in names.split()
)
_OLD = {"__builtin__": "builtins", "cPickle": "pickle", "pathlib._local": "pathlib"}
_WAYS_OUT = frozenset(
    {
        *("__bases__", "__builtins__", "__closure__", "__code__", "__func__", "__getattribute__"),
        *("__globals__", "__import__", "__loader__", "__mro__", "__self__", "__spec__"),
        "__subclasses__",
    }
)
"""Attributes that lead from a class to the functions behind it."""
_MODULES = frozenset({"_os", "_sys", "os", "subprocess", "sys"})


def is_dangerous(named: TypeName) -> bool:
    """Return whether a saver that decodes the value would certainly do harm."""
    if not named.called:
        return False
    if named.is_computed:
        return True
    text = f"{_OLD.get(named.module, named.module)}.{named.name}"
    if text in _DANGEROUS or (named.method and f"{text}.{named.method}" in _DANGEROUS):
        return True
    # The name of a nested class goes through classes only, not through imported modules.
    path = [*named.name.split("."), *filter(None, [named.method])]
    return not (_WAYS_OUT.isdisjoint(path) and _MODULES.isdisjoint(path[:-1]))
