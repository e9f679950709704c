"""What is certainly dangerous, and what agents store every day."""

from __future__ import annotations

import importlib
import tomllib
from importlib.resources import files

import pytest

from ckpt_cli.core.doctor.types import NamedIn, TypeName, is_dangerous


def named(text: str, method: str = "", *, called: bool = True) -> TypeName:
    module, _, name = text.partition(":")
    return TypeName(module, name, NamedIn.PICKLE, method, called)


DANGEROUS = """
    os:system posix:system nt:system os:popen os:execv os:remove os:unlink os:kill os:putenv
    subprocess:Popen subprocess:run subprocess:check_output commands:getoutput pty:spawn
    builtins:eval builtins:exec builtins:compile builtins:__import__ builtins:open builtins:setattr
    __builtin__:eval __builtin__:execfile shutil:rmtree shutil:move runpy:run_path
    importlib:import_module importlib:__import__ pickle:loads _pickle:loads cPickle:loads
    marshal:loads ctypes:CDLL socket:socket socket:create_connection webbrowser:open
    code:InteractiveInterpreter.runcode cProfile:run timeit:timeit pdb:run types:FunctionType
    io:open pathlib:Path.unlink urllib.request:urlopen
    dill:loads cloudpickle:loads joblib:load torch:load yaml:unsafe_load numpy:load requests:get
    collections:_sys.modules.get app:Order.__init__.__globals__.get
"""
HARMLESS = """
    datetime:datetime datetime:timedelta decimal:Decimal pathlib:Path pathlib:PosixPath
    pathlib._local:PosixPath uuid:UUID re:compile re:_compile ipaddress:IPv4Address
    zoneinfo:ZoneInfo zoneinfo:ZoneInfo._unpickle collections:deque collections:OrderedDict
    http:HTTPStatus enum:Enum fractions:Fraction random:Random copyreg:_reconstructor
    functools:partial operator:itemgetter operator:attrgetter builtins:getattr builtins:set
    builtins:list builtins:complex builtins:range builtins:slice builtins:ValueError
    builtins:print builtins:object builtins:type os:stat_result os:path os:PathLike os:fspath
    posixpath:join subprocess:CompletedProcess subprocess:CalledProcessError
    socket:AddressFamily signal:Signals ssl:TLSVersion logging:Logger types:SimpleNamespace
    numpy:dtype numpy:ndarray numpy._core.multiarray:_reconstruct numpy.core.multiarray:scalar
    pandas:DataFrame pandas.core.frame:DataFrame pandas._libs.tslibs.timestamps:Timestamp
    pandas._libs.internals:_unpickle_block torch._utils:_rebuild_tensor_v2
    torch.storage:_load_from_bytes
    langchain_core.messages.ai:AIMessage langchain.schema:Document langgraph.types:Send
    app.models:Order app:system app:run shop.tools:eval my.os:system myapp:Popen
    sys_tools:exec models:Outer.Inner __main__:os
"""


@pytest.mark.parametrize("text", DANGEROUS.split())
def test_what_runs_code_or_changes_files_is_dangerous(text: str) -> None:
    assert is_dangerous(named(text))
    assert not is_dangerous(named(text, called=False))


@pytest.mark.parametrize("text", HARMLESS.split())
def test_what_agents_store_is_harmless(text: str) -> None:
    assert not is_dangerous(named(text))


@pytest.mark.parametrize(
    ("text", "method", "expected"),
    [
        ("datetime:datetime", "fromisoformat", False),
        ("app:Shade", "os", False),
        ("app:Order", "parse", False),
        ("pathlib:Path", "write_text", True),
        ("pathlib._local:Path", "write_text", True),
        ("app:Order", "__subclasses__", True),
        ("shutil:os", "system", True),
    ],
)
def test_methods_are_judged_too(text: str, method: str, *, expected: bool) -> None:
    assert is_dangerous(named(text, method)) is expected


MODULES = """
    _pickle _thread bdb builtins cProfile code codecs ctypes importlib io marshal os pdb pickle pty
    pydoc runpy shutil signal socket subprocess sys tempfile timeit trace types
"""
TABLE = tomllib.loads(files("ckpt_cli.data").joinpath("dangerous_names.toml").read_text("utf-8"))
NAMES = {module: names for group in TABLE.values() for module, names in group.items()}
ELSEWHERE = "chflags lchflags lchmod startfile OleDLL WinDLL execfile _clear_type_cache"
"""Names of other systems, and of other releases of Python."""


@pytest.mark.parametrize("module", MODULES.split())
def test_the_listed_names_of_python_exist(module: str) -> None:
    """A name with a typing error would never be found."""
    listed = {name.partition(".")[0] for name in NAMES[module].split()}
    there = set(dir(importlib.import_module(module)))
    assert listed - there <= set(ELSEWHERE.split())
