"""Describe compiled LangGraph graphs as JSON, for `ckpt compat`.

    python probe.py app.graph:graph > graph.json        a graph, or a function that returns one
    python probe.py langgraph.json > graph.json         all graphs of a langgraph.json

Run it where the application runs: it imports the graph, and nothing but that and Python's own
library. It sends nothing anywhere, calls no node and reads no checkpoint. What it prints holds
names, types and hashes of code, and no value, but for literal arguments of `interrupt()`.
"""

import ast
import asyncio
import dataclasses
import enum
import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import os
import platform
import sys
import textwrap
import types
import typing

FORMAT = 1
MOST_LITERAL = 200
MOST_FUNCTIONS = 500
PACKAGES = ("langgraph", "langgraph-checkpoint", "langchain", "langchain-core", "deepagents")


def main(words):
    if not words or words[0] in {"-h", "--help"}:
        print(__doc__)
        return 0 if words else 2
    sys.path.insert(0, os.getcwd())
    found = {}
    for word in words:
        found.update(graphs_named(word))
    described = Description()
    document = {
        "ckpt_graph": FORMAT,
        "versions": versions(),
        "graphs": {name: described.graph(graph) for name, graph in found.items()},
        "parts": described.parts,
        "schemas": described.schemas,
        "classes": described.classes,
    }
    document["fingerprints"] = {
        name: described.fingerprint(number) for name, number in document["graphs"].items()
    }
    json.dump(document, sys.stdout, indent=1, sort_keys=True)
    print()
    return 0


def versions():
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def graphs_named(word):
    """Return name to graph for `MODULE:NAME`, `FILE.py:NAME` or a langgraph.json."""
    if word.endswith(".json"):
        with open(word, encoding="utf-8") as file:
            config = json.load(file)
        base = os.path.dirname(os.path.abspath(word))
        sys.path[:0] = [os.path.join(base, one) for one in config.get("dependencies", ["."])]
        named = config.get("graphs") or {}
        places = {
            name: one["path"] if isinstance(one, dict) else one for name, one in named.items()
        }
        return {name: loaded(place, base) for name, place in places.items()}
    return {word.rpartition(":")[2] or word: loaded(word, os.getcwd())}


def loaded(place, base):
    where, colon, name = place.rpartition(":")
    if not colon:
        where, name = place, "graph"
    if where.endswith(".py"):
        path = os.path.join(base, where)
        key = "probed_" + digest(path)
        spec = importlib.util.spec_from_file_location(key, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[key] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(where)
    found = module
    for part in name.split("."):
        found = getattr(found, part)
    return compiled(found)


def compiled(found):
    """Return a compiled graph: of a builder, or of a function that makes one."""
    for _ in range(3):
        if hasattr(found, "nodes") and hasattr(found, "channels") and hasattr(found, "invoke"):
            return found
        if hasattr(found, "compile"):
            found = found.compile()
        elif callable(found):
            needed = [
                one
                for one in inspect.signature(found).parameters.values()
                if one.default is one.empty
                and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
            ]
            found = found(*([{}] * len(needed)))
            if inspect.isawaitable(found):
                found = asyncio.run(awaited(found))
        else:
            break
    raise SystemExit("probe: this is no graph, no builder and no function that makes one")


async def awaited(found):
    return await found


def digest(text):
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()[:16]


class Description:
    """What is told of several graphs; equal schemas are told once."""

    def __init__(self):
        self.parts = []
        self.schemas = {}
        self.classes = {}
        self._seen = {}

    def graph(self, graph):
        """Return the number of the part that describes a graph."""
        if id(graph) in self._seen:
            return self._seen[id(graph)]
        number = self._seen[id(graph)] = len(self.parts)
        part = {}
        self.parts.append(part)
        builder = getattr(graph, "builder", None)
        saver = getattr(graph, "checkpointer", None)
        part.update(
            {
                "name": str(getattr(graph, "name", "")),
                "kind": "state" if builder is not None else "functional",
                "checkpointer": saver
                if isinstance(saver, bool)
                else None
                if saver is None
                else True,
                "channels": {
                    name: self.channel(one) for name, one in sorted(graph.channels.items())
                },
                "interrupt_before": listed(getattr(graph, "interrupt_before_nodes", ())),
                "interrupt_after": listed(getattr(graph, "interrupt_after_nodes", ())),
            }
        )
        part["nodes"] = {
            name: self.node(name, one, builder) for name, one in sorted(graph.nodes.items())
        }
        if builder is not None:
            part.update(edges(builder))
        return number

    def fingerprint(self, number):
        """Return a digest of a graph with all that it calls, wherever it stands among others."""
        parts, told = [number], []
        for one in parts:
            nodes = {}
            for name, node in self.parts[one]["nodes"].items():
                inner = []
                for each in node.get("subgraphs", ()):
                    if each["part"] not in parts:
                        parts.append(each["part"])
                    inner.append({**each, "part": parts.index(each["part"])})
                nodes[name] = {**node, "subgraphs": inner}
            told.append({**self.parts[one], "nodes": nodes})
        named = {
            name: self.classes[name]
            for part in told
            for channel in part["channels"].values()
            for name in channel.get("classes", ())
        }
        return digest(json.dumps([told, named], sort_keys=True))

    def node(self, name, node, builder):
        told = {"triggers": sorted(map(str, getattr(node, "triggers", ())))}
        spec = getattr(builder, "nodes", {}).get(name) if builder is not None else None
        if spec is not None and getattr(spec, "defer", False):
            told["defer"] = True
        inner = [one for one in getattr(node, "subgraphs", ()) or () if hasattr(one, "nodes")]
        bound = getattr(node, "bound", None)
        if not inner and hasattr(bound, "nodes") and hasattr(bound, "channels"):
            inner = [bound]  # with checkpointer=False, LangGraph does not look into it
        if inner:
            told["subgraphs"] = [
                {"part": self.graph(one), "checkpointer": scope(one)} for one in inner
            ]
        schema = getattr(spec, "input_schema", None)
        if schema is not None:
            told["input"] = self.state(schema)
        told.update(self.code(getattr(node, "bound", None)))
        return told

    def channel(self, channel):
        kind = type(channel).__name__
        told = {"kind": kind}
        typ = getattr(channel, "typ", None)
        told.update(self.type(typ))
        reducer = getattr(channel, "operator", None) or getattr(channel, "reducer", None)
        if reducer is not None:
            told["reducer"] = named(reducer)
            told["reducer_code"] = code_hash(reducer)
        if kind.startswith("NamedBarrier"):
            told["members"] = sorted(map(str, getattr(channel, "names", ())))
        default = getattr(channel, "value", None)
        if reducer is not None and type(default).__name__ in {"list", "dict", "set", "str", "int"}:
            told["container"] = type(default).__name__
        return told

    def type(self, typ):
        """Return a type: its container, its JSON Schema, and the classes it names."""
        if typ is None:
            return {}
        plain = typ
        while typing.get_origin(plain) is typing.Annotated:
            plain = typing.get_args(plain)[0]
        origin = typing.get_origin(plain) or plain
        told = {"type": getattr(origin, "__name__", str(origin))}
        key = self.schema(plain)
        if key is not None:
            told["schema"] = key
        for one in classes_in(plain):
            name = f"{one.__module__}.{one.__qualname__}"
            told.setdefault("classes", []).append(name)
            if name not in self.classes:
                self.classes[name] = {}
                self.classes[name] = self.described(one)
        return told

    def described(self, kind):
        """Return what a stored object of a class needs: its fields, or the values of an enum."""
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return {"kind": "enum", "values": [plain_value(one.value) for one in kind]}
        if dataclasses.is_dataclass(kind):
            fields = dataclasses.fields(kind)
            return {
                "kind": "dataclass",
                "fields": [one.name for one in fields],
                "required": [one.name for one in fields if is_required(one)],
            }
        fields = getattr(kind, "model_fields", None)
        if isinstance(fields, dict):
            return {
                "kind": "pydantic",
                "fields": None if is_open(kind) else sorted(fields),
                "required": sorted(name for name, one in fields.items() if one.is_required()),
                "schema": self.schema(kind),
            }
        return {"kind": "class"}

    def state(self, schema):
        """Return a state schema of a node: what it must find, and how it is checked."""
        if isinstance(getattr(schema, "model_fields", None), dict):
            return {**self.described(schema), "name": schema.__qualname__}
        if dataclasses.is_dataclass(schema):
            return {**self.described(schema), "name": schema.__qualname__}
        return {"kind": "dict", "name": getattr(schema, "__qualname__", str(schema))}

    def schema(self, typ):
        """Return the key of the JSON Schema of a type; None if it has none."""
        try:
            from pydantic import TypeAdapter

            found = TypeAdapter(typ).json_schema(mode="serialization")
        except Exception:
            return None
        text = json.dumps(found, sort_keys=True, default=str)
        if len(text) > 20_000 or text == "{}":
            return None
        key = digest(text)
        self.schemas[key] = json.loads(text)
        return key

    def code(self, bound):
        """Return what the code of a node tells."""
        told = {}
        tools = getattr(bound, "tools_by_name", None)
        if isinstance(tools, dict):
            told["tools"] = {name: self.tool(one) for name, one in sorted(tools.items())}
        functions = list(functions_of(bound))
        for one in functions:
            owner = getattr(one, "__self__", None)
            gates = getattr(owner, "interrupt_on", None)
            if isinstance(gates, dict):
                told["interrupt_on"] = sorted(map(str, gates))
            subagents = getattr(owner, "subagents", None)
            if isinstance(subagents, list):
                told["subagents"] = sorted(
                    one["name"] for one in subagents if isinstance(one, dict) and "name" in one
                )
        hashes = [code_hash(one) for one in functions]
        if any(hashes):
            told["code"] = digest(" ".join(filter(None, hashes)))
        asks, sure = asks_of(functions)
        if asks or not sure:
            told["asks"], told["asks_all"] = asks, sure
        calls, sure = calls_of(functions)
        if calls or not sure:
            told["calls"], told["calls_all"] = calls, sure
        return told

    def tool(self, tool):
        told = {}
        args = getattr(tool, "args", None)
        if isinstance(args, dict):
            told["args"] = sorted(map(str, args))
        schema = getattr(tool, "tool_call_schema", None)
        try:
            required = schema.model_json_schema().get("required", [])
            told["required"] = sorted(map(str, required))
        except Exception:  # noqa: S110 - a tool of any kind
            pass
        function = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
        if function is not None:
            agents = agents_of(function)
            if agents:
                told["agents"] = agents
            asks, sure = asks_of([function])
            if asks or not sure:
                told["asks"], told["asks_all"] = asks, sure
        return told


def agents_of(function):
    """Return the names of the agents that a tool calls, such as the subagents of Deep Agents: it
    has them by name.
    """
    return sorted(
        {
            str(name)
            for found in named_in(inspect.unwrap(function))
            if isinstance(found, dict) and found
            if all(hasattr(one, "invoke") for one in found.values())
            for name in found
        }
    )


def listed(nodes):
    return [nodes] if isinstance(nodes, str) else sorted(map(str, nodes or ()))


def scope(graph):
    """Return how a subgraph is checkpointed: each call anew, over all calls, or not at all."""
    saver = getattr(graph, "checkpointer", None)
    return (
        "calls"
        if saver is None
        else "thread"
        if saver is True
        else "none"
        if saver is False
        else "own"
    )


def edges(builder):
    """Return where nodes lead: always, perhaps, and those that may lead anywhere.

    Joins are not among them: their channels have the members.
    """
    always, perhaps, anywhere = {}, {}, set()

    def add(to, start, end):
        to.setdefault(str(start), set()).add(str(end))

    for start, end in getattr(builder, "edges", ()):
        add(always, start, end)
    for start, branches in getattr(builder, "branches", {}).items():
        for branch in branches.values():
            ends = getattr(branch, "ends", None)
            if ends is None:
                anywhere.add(str(start))
            for end in (ends or {}).values():
                add(perhaps, start, end)
    for name, spec in getattr(builder, "nodes", {}).items():
        ends = getattr(spec, "ends", ()) or ()
        for end in ends.values() if isinstance(ends, dict) else ends:
            add(perhaps, name, end)
        if not ends and any(map(may_go_anywhere, functions_of(getattr(spec, "runnable", None)))):
            anywhere.add(str(name))
    return {
        "edges": {name: sorted(ends) for name, ends in always.items()},
        "branches": {name: sorted(ends) for name, ends in perhaps.items()},
        "anywhere": sorted(anywhere),
    }


def may_go_anywhere(function):
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code is not None and ("Command" in code.co_names or "Send" in code.co_names)


def functions_of(bound):
    """Yield the functions that a runnable calls."""
    seen = set()
    ahead = [bound]
    while ahead:
        one = ahead.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, (types.FunctionType, types.MethodType)):
            yield one
            continue
        ahead += [getattr(one, name, None) for name in ("func", "afunc", "bound")]
        steps = getattr(one, "steps", None)
        if isinstance(steps, (list, tuple)):
            ahead += steps
        call = getattr(type(one), "__call__", None)
        if len(seen) == 1 and isinstance(call, types.FunctionType) and not ahead[0]:
            yield call


def named(found):
    return (
        f"{getattr(found, '__module__', '')}.{getattr(found, '__qualname__', type(found).__name__)}"
    )


def source_of(function):
    try:
        return textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    except (OSError, TypeError):
        return None


def code_hash(function):
    """Return a digest of what a function says, without its comments and its place."""
    text = source_of(function)
    if text is not None:
        try:
            return digest(ast.dump(ast.parse(text)))
        except SyntaxError:  # a lambda in the middle of an expression
            pass
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return None
    return digest(code.co_code + repr(code.co_names).encode() + repr(code.co_consts).encode())


def asks_of(functions):
    """Return the literal arguments of `interrupt()` in the order of the source, and whether these
    are all: none in a loop or a branch, and none in a function that is called.
    """
    asks, sure = [], True
    for one in functions:
        text = source_of(one)
        try:
            tree = ast.parse(text) if text is not None else None
        except SyntaxError:
            tree = None
        sure = sure and not any(asks_itself(each) for each in called_by(one))
        if tree is None:
            sure = sure and not asks_itself(inspect.unwrap(one))
            continue
        found = Asks(known_in(one))
        found.visit(tree)
        asks += found.asks
        sure = sure and found.sure
    return asks, sure


def asks_itself(function):
    return any(map(is_interrupt, named_in(function)))


def is_interrupt(found):
    return named(found) == "langgraph.types.interrupt"


class Asks(ast.NodeVisitor):
    def __init__(self, known):
        self.known, self.asks, self.sure, self.depth = known, [], True, 0

    def visit_Call(self, node):
        name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
        if name == "interrupt" or is_interrupt(value_of(node.func, self.known)):
            given = node.args[0] if node.args else None
            try:
                value = ast.literal_eval(given) if given is not None else None
                text = json.dumps(value)
                self.asks.append(value if len(text) <= MOST_LITERAL else None)
            except (ValueError, TypeError, SyntaxError):
                self.asks.append(None)
            self.sure = self.sure and not self.depth
        self.generic_visit(node)

    def nested(self, node):
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_For = visit_While = visit_If = visit_Try = visit_AsyncFor = visit_IfExp = nested
    visit_ListComp = visit_GeneratorExp = visit_Match = nested


def calls_of(functions):
    """Return the names of the `@task` functions that are called, in the order of the source, and
    whether these are all calls in their order: each once, and none in a function that is called.
    """
    calls, sure = [], True
    for one in functions:
        known = known_in(one)
        text = source_of(one)
        try:
            tree = ast.parse(text) if text is not None else None
        except SyntaxError:
            tree = None
        others = [inspect.unwrap(one), *called_by(one)]
        inner = sorted(
            {name for each in others for name in map(task_name, named_in(each)) if name is not None}
        )
        if tree is not None:
            found = Calls(known)
            found.visit(tree)
            calls += found.calls
            sure = sure and found.sure
            inner = [name for name in inner if name not in found.calls]
        calls += inner
        sure = sure and not inner
    return calls, sure


class Calls(ast.NodeVisitor):
    def __init__(self, known):
        self.known, self.calls, self.sure, self.depth = known, [], True, 0
        self.is_inside = False

    def visit_Call(self, node):
        for one in (*node.args, *node.keywords):  # what is passed is called before
            self.visit(one)
        name = task_name(value_of(node.func, self.known))
        if name is None:
            self.visit(node.func)
        else:
            self.calls.append(name)
            self.sure = self.sure and not self.depth

    def visit_Name(self, node):
        if task_name(value_of(node, self.known)) is not None:
            self.sure = False  # something else calls it

    def visit_Attribute(self, node):
        self.visit_Name(node)
        self.visit(node.value)

    def nested(self, node):
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_For = visit_While = visit_If = visit_Try = visit_AsyncFor = visit_IfExp = nested
    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_Match = nested
    visit_BoolOp = visit_Lambda = nested

    def visit_FunctionDef(self, node):
        if self.is_inside:
            self.nested(node)
            return
        self.is_inside = True  # its decorators were called before it is
        for one in node.body:
            self.visit(one)

    visit_AsyncFunctionDef = visit_FunctionDef


def known_in(function):
    """Return what the names in a function mean."""
    plain = inspect.unwrap(function)
    code, known = getattr(plain, "__code__", None), dict(getattr(plain, "__globals__", {}))
    for name, cell in zip(code.co_freevars if code else (), plain.__closure__ or ()):
        try:
            known[name] = cell.cell_contents
        except ValueError:
            continue
    return known


def value_of(node, known):
    """Return what a name, or a name in a module, means."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute):
        around = value_of(node.value, known)
        return getattr(around, node.attr, None) if isinstance(around, types.ModuleType) else None
    return None


def task_name(found):
    """Return the name of a `@task` function, None for everything else."""
    if type(found).__name__ not in {"_TaskFunction", "TaskFunction"}:
        return None
    return getattr(found, "__name__", None) or getattr(found.func, "__name__", None)


def named_in(function):
    """Return what a function names: functions, modules and what it takes from these."""
    known, codes, found = known_in(function), [getattr(function, "__code__", None)], []
    while codes:
        code = codes.pop()
        if code is None:
            continue
        codes += [one for one in code.co_consts if isinstance(one, types.CodeType)]
        names = {*code.co_names, *code.co_freevars}
        some = [known[name] for name in sorted(names) if name in known]
        found += some
        found += [
            getattr(module, name, None)
            for module in some
            if isinstance(module, types.ModuleType) and not is_library(module)
            for name in sorted(names)
        ]
    return found


def called_by(function):
    """Return the plain functions that a function may call, directly or by others."""
    seen, ahead = [], [inspect.unwrap(function)]
    while ahead and len(seen) < MOST_FUNCTIONS:
        one = ahead.pop()
        seen.append(one)
        ahead += [
            plain
            for plain in named_in(one)
            if isinstance(plain, types.FunctionType)
            and not is_library(plain)
            and not any(plain is each for each in (*seen, *ahead))
        ]
    return seen[1:]


def is_library(found):
    module = getattr(found, "__module__", None) or getattr(found, "__name__", "")
    package = str(module).partition(".")[0]
    return package in {"langgraph", "langchain", "langchain_core"} | sys.stdlib_module_names


def classes_in(typ):
    """Yield the classes of an application in a type: those that a store names."""
    for one in typing.get_args(typ):
        yield from classes_in(one)
    if isinstance(typ, type) and typ.__module__ not in {"builtins", "typing", "datetime", "types"}:
        is_state = typing.is_typeddict(typ)
        if not is_state and not typ.__module__.startswith(("langgraph.", "langchain_core.")):
            yield typ


def is_required(field):
    return (
        field.init
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    )


def is_open(model):
    """Return whether a model keeps fields that it does not name."""
    return getattr(model, "model_config", {}).get("extra") == "allow"


def plain_value(value):
    return value if isinstance(value, (str, int, float, bool)) or value is None else repr(value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
