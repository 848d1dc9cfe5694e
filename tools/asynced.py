"""Makes the client for event loops, `lakebed.aio.client`, of the one for threads.

    python -m tools.asynced          # writes the modules

`lakebed.client` is what people edit. A function that calls the transport (`sockets`), itself or
through others, becomes `async def`, and calls of it are awaited; a generator that does becomes an
asynchronous one, and loops over it `async for`. What is called is found by the annotations of
parameters and results and by what `__init__` assigns. `RemoteTopic` becomes `AsyncTopic`. The
Protocols of `lakebed.api` become those of `lakebed.aio.surface` in the same way.

By hand are `sockets`, `undo_on_cancel` and `manifest_log`, and what `BODIES` below has: what must
happen when a task is cancelled, and what the engines' own readers do over the wire for threads.
Where the rules are not enough mypy says so: what is made is checked as strictly as the rest.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

SOURCE: Final = Path(__file__).resolve().parent.parent / "src" / "lakebed"
HEADING: Final = "# Made by `python -m tools.asynced` of `{}`: edit that.\n"

CLIENT: Final = (
    "access_keys", "batch_commit", "bucket", "caller", "connection", "connection_pool", "damage",
    "followers", "group", "jobs", "log", "log_follower", "maintenance", "manifest_files",
    "message_appender", "partition", "pins", "plans", "response", "segment_range", "store",
    "stored_objects", "topic", "topics",
)  # fmt: skip
BY_HAND: Final = ("sockets", "manifest_log")  # of the same names in both


class Made(NamedTuple):
    """A module that is made, of which one, and of which of its classes: all if none are named."""

    source: str
    target: str
    only: frozenset[str] = frozenset()


MADE: Final = (
    *(Made(f"client/{name}.py", f"aio/client/{name}.py") for name in CLIENT),
    Made("base/batch_iterator.py", "aio/client/batch_iterator.py"),
    Made("keratin/follower.py", "aio/client/message_iterator.py", frozenset({"MessageIterator"})),
    Made("aof/follower.py", "aio/client/record_iterator.py", frozenset({"RecordIterator"})),
)
PROTOCOLS: Final = (
    Made("api/read_surface.py", "aio/read_surface.py"),
    Made("api/surface.py", "aio/surface.py"),
)

AWAITED: Final = frozenset(
    {
        *("connect", "pause", "once", "find_manifest_log"),
        *("Socket.recv", "Socket.recv_into", "Socket.sendall"),
        *("ExitStack.enter_context", "Caller.close", "BatchIterator.wait_for_batch"),
        *("RemotePins.create", "RemoteGroup.lease", "PollingIterator.poll", "ConnectionPool._make"),
        *("RemoteManifestLog.reader", "RemoteManifestLog.files"),
    }
)  # functions that are asynchronous whatever is in them
CONTEXTS: Final = frozenset({"Interruption.of"})  # and context managers
ITERATORS: Final[Mapping[str, frozenset[str]]] = {
    "RemoteObject.__iter__": frozenset({"pieces"}),
    "RemoteBucket.read": frozenset({"pieces"}),
    "Caller._translated_pieces": frozenset({"pieces"}),
    "_limited": frozenset({"messages"}),
    "RemoteLog._page_batches": frozenset({"pages"}),
}  # names of asynchronous iterators in a function

PROTOCOL_CLASSES: Final = {
    "MessageFollower": "RemoteTopicFollower",
    "StoredObject": "RemoteObject",
    "ReadPins": "RemotePins",
    "PendingAppend": "AppendResult",
    "Verification": "RemoteMaintenance",
}  # others are called `RemoteX`, for `X` and `ReadableX`

BODIES: Final = {
    "RemoteGroup.lease": '''
        """Up to that many messages, held for `lease_ms`. None, if there are none.

        No more than `max_bytes`, which are 32 MiB at most, but one message in any case. With
        `wait_s` it waits that long for the first one. Cancelled, it gives back what comes of it.
        """
        interruption = Interruption()
        leasing = self._lease(
            interruption,
            max_messages=max_messages,
            max_bytes=max_bytes,
            lease_ms=lease_ms,
            wait_s=wait_s,
        )
        return await self._caller.undo_on_cancel.run(leasing, interruption, self.give_back)
''',
    "RemotePins.create": '''
        """As `pin` if a log is given, as `pin_offsets` if a topic and a partition are.

        Cancelled, it releases what comes of it.
        """
        body = wire.NewPin(start, end, duration_ms, owner, log, topic, partition)
        pinning = self._caller.call(wire.CREATE_PIN, body=body)
        return await self._caller.undo_on_cancel.run(
            pinning, None, lambda pin: self.release(pin.pin_id)
        )
''',
    "RemoteLog.read_batches": '''
        """The same as columns, many at a time."""
        pages = await self._pages(start, end, max_bytes=batch_bytes_max or PAGE_BYTES)
        return self._page_batches(pages)
''',
    "Caller.close": '''
        """Also ends what is under way, with `Closed`. Idempotent."""
        await self.undo_on_cancel.settled()
        self._connections.close()
''',
}

TEXT: Final[tuple[tuple[str, str], ...]] = (
    (r"\bRemote(?=[A-Z])", "Async"),
    (r"Thread-safe", "For one event loop"),
    (r" In a forked child it [^\n.]*\.", ""),
    (r"; in a forked child it [^\n.]*\.", "."),
    (
        r"; a forked child has a pool of its\nown, and never touches the sockets of its parent\.",
        ".",
    ),
    (r"\b[Oo]f one thread at a time", "Of one task at a time"),
    (r"belongs to one thread", "belongs to one task"),
    (r"For one thread", "For one task"),
    (r"; from any thread", ""),
    (r", from any thread", ""),
    (r", from another thread", ""),
    (r"(?s)if TYPE_CHECKING:\n    from lakebed.store[^\n]*\n.*\Z", ""),  # embedded classes
    (r"from lakebed\.api import surface", "from lakebed.aio import surface"),
    (r"lakebed\.api\.(read_surface|surface)\b", r"lakebed.aio.\1"),
    (rf"lakebed\.client\.({'|'.join((*CLIENT, *BY_HAND))})\b", r"lakebed.aio.client.\1"),
    (r"lakebed\.client import sockets", "lakebed.aio.client import sockets"),
    (r"lakebed\.base\.batch_iterator\b", "lakebed.aio.client.batch_iterator"),
    (r"lakebed\.keratin\.follower import", "lakebed.aio.client.message_iterator import"),
    (r"lakebed\.aof\.follower import", "lakebed.aio.client.record_iterator import"),
    (r"\bExitStack\b", "AsyncExitStack"),
    (r"\.enter_context\(", ".enter_async_context("),
    (r"\.push\((undo)", r".push_async_exit(\1"),
    (r"\bonce: Callable\[\[\], Result\]", "once: Callable[[], Awaitable[Result]]"),
    (r"make: Callable\[\[\], Connection\]", "make: Callable[[], Awaitable[Connection]]"),
    (r"    pieces: Iterator\[bytes\]", "    pieces: AsyncIterator[bytes]"),
    (r"\bStopIteration\b", "StopAsyncIteration"),
    (r"class BatchIterator\(Iterator\[", "class BatchIterator(AsyncIterator["),
    (r"\b__(enter|exit|next)__", r"__a\1__"),
    (r"from contextlib import contextmanager", "from contextlib import asynccontextmanager"),
    (r"AsyncExitStack, contextmanager", "AsyncExitStack, asynccontextmanager, contextmanager"),
    (
        r"from collections\.abc import ([^\n(]*)\n",
        r"from collections.abc import AsyncIterator, Awaitable, \1\n",
    ),
    (
        r"(?m)^(        self\._fixed = _fixed_headers.*)$",
        r"\1\n        self.undo_on_cancel = UndoOnCancel()",
    ),
    (
        r"(?m)^(from lakebed\.client\.retry_schedule import REFUSALS.*)$",
        r"\1\nfrom lakebed.aio.client.undo_on_cancel import UndoOnCancel",
    ),
)

DOCSTRINGS: Final = {
    "aio/read_surface.py": """
What can be read of a store, for programs with an event loop: see `lakebed.aio.surface`.
""",
    "aio/surface.py": """
The surface of a store, for programs with an event loop.

What asks the server is awaited, properties included: `(await bucket.info).name`. mypy compares
`AsyncStore`, and the classes that it returns, in `lakebed.aio.client.store`.
""",
}  # instead of those of the modules they are made of

Function = ast.FunctionDef
ASYNC_ITERATOR: Final = "an asynchronous iterator"


class Class(NamedTuple):
    node: ast.ClassDef
    methods: dict[str, Function]
    attributes: dict[str, str]  # types by name


class Program:
    """All modules that are made, and which of their functions are asynchronous."""

    def __init__(self) -> None:
        self.classes: dict[str, Class] = {}
        self.functions: dict[str, Function] = {}
        self.kinds: dict[str, str] = {}  # "await", "iterate" or "enter", by `Class.method`
        self.trees: dict[str, ast.Module] = {}
        for made in MADE:
            self._load(made)
        self._type_attributes()
        self.kinds |= dict.fromkeys(AWAITED, "await") | dict.fromkeys(CONTEXTS, "enter")
        while self._spread():
            pass

    def _load(self, made: Made) -> None:
        tree = self.trees[made.source] = ast.parse((SOURCE / made.source).read_text())
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and (not made.only or node.name in made.only):
                methods = {one.name: one for one in node.body if isinstance(one, Function)}
                self.classes[node.name] = Class(node, methods, {})
            elif isinstance(node, Function) and not made.only:
                self.functions[node.name] = node

    def _type_attributes(self) -> None:
        """By what `__init__` assigns."""
        for name, found in self.classes.items():
            if "__init__" not in found.methods:
                continue
            scope = Scope(self, name, found.methods["__init__"])
            for statement in ast.walk(found.methods["__init__"]):
                if isinstance(statement, ast.Assign):
                    for target in statement.targets:
                        if isinstance(target, ast.Attribute):
                            found.attributes[target.attr] = scope.type_of(statement.value)

    def _spread(self) -> bool:
        """Whether another function is asynchronous, because of those that are."""
        count = len(self.kinds)
        for name, function in self._all():
            if name not in self.kinds:
                kind = Scope(self, name.rpartition(".")[0], function).kind()
                if kind:
                    self.kinds[name] = kind
        return len(self.kinds) > count

    def _all(self) -> Iterator[tuple[str, Function]]:
        for name, found in self.classes.items():
            for method in found.methods.values():
                yield f"{name}.{method.name}", method
        yield from self.functions.items()

    def method_kind(self, owner: str, name: str) -> str:
        """Of a method of a class, or of one that it extends."""
        for base in self.lineage(owner):
            if f"{base}.{name}" in self.kinds:
                return self.kinds[f"{base}.{name}"]
        return ""

    def lineage(self, owner: str) -> Iterator[str]:
        yield owner
        if owner in self.classes:
            for base in self.classes[owner].node.bases:
                yield from self.lineage(_class_of(base))

    def result_of(self, owner: str, name: str) -> str:
        for base in self.lineage(owner):
            if base in self.classes and name in self.classes[base].methods:
                return _class_of(self.classes[base].methods[name].returns)
        return ""

    def attribute(self, owner: str, name: str) -> str:
        for base in self.lineage(owner):
            if base in self.classes and name in self.classes[base].attributes:
                return self.classes[base].attributes[name]
        return self.result_of(owner, name)


class Scope:
    """One function: the types of its names, and what in it is asynchronous."""

    def __init__(self, program: Program, owner: str, function: Function) -> None:
        self._program = program
        self._owner = owner
        self._function = function
        self.name = f"{owner}.{function.name}" if owner else function.name
        self.types = {
            argument.arg: _class_of(argument.annotation)
            for argument in (*function.args.args, *function.args.kwonlyargs)
        }
        if owner:
            self.types["self"] = owner
        self.types |= dict.fromkeys(ITERATORS.get(self.name, ()), ASYNC_ITERATOR)
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self.types.setdefault(node.targets[0].id, self.type_of(node.value))
            elif isinstance(node, ast.With):
                for item in node.items:
                    if isinstance(item.optional_vars, ast.Name):
                        kind = self.type_of(item.context_expr)
                        self.types.setdefault(item.optional_vars.id, kind)

    def kind(self) -> str:
        if not any(True for _ in self.asynchronous()):
            return ""
        if any(_decorator(one) == "contextmanager" for one in self._function.decorator_list):
            return "enter"
        return "iterate" if _yields(self._function) else "await"

    def asynchronous(self) -> Iterator[ast.AST]:
        """Calls that are awaited, loops and contexts."""
        return filter(self._is_asynchronous, ast.walk(self._function))

    def _is_asynchronous(self, node: ast.AST) -> bool:
        match node:
            case ast.Call():
                is_awaited = self.call_kind(node) == "await"
                return is_awaited or self.is_next(node) or self.is_join(node)
            case ast.Attribute():
                return self._is_asked(node)
            case ast.For() | ast.comprehension():
                return self.is_iterator(node.iter)
            case ast.With():
                return any(self.is_context(item.context_expr) for item in node.items)
            case ast.YieldFrom():
                return self.is_iterator(node.value)
            case _:
                return False

    def _is_asked(self, node: ast.Attribute) -> bool:
        """A property that asks the server."""
        owner = self.type_of(node.value)
        found = self._program.classes.get(owner)
        method = found.methods.get(node.attr) if found else None
        return (
            method is not None
            and any(_decorator(one) == "property" for one in method.decorator_list)
            and self._program.method_kind(owner, node.attr) == "await"
        )

    def call_kind(self, call: ast.Call) -> str:
        function = call.func
        if isinstance(function, ast.Name):
            return self._program.kinds.get(function.id, "")
        if isinstance(function, ast.Attribute):
            return self._program.method_kind(self.type_of(function.value), function.attr)
        return ""

    def is_iterator(self, node: ast.expr) -> bool:
        kind = self.type_of(node)
        return kind == ASYNC_ITERATOR or self._program.method_kind(kind, "__iter__") == "iterate"

    def is_context(self, node: ast.expr) -> bool:
        is_entered = isinstance(node, ast.Call) and self.call_kind(node) == "enter"
        return is_entered or self.type_of(node) == "ExitStack"

    def is_next(self, call: ast.Call) -> bool:
        is_named = isinstance(call.func, ast.Name) and call.func.id == "next"
        return is_named and self.is_iterator(call.args[0])

    def is_join(self, call: ast.Call) -> bool:
        is_named = isinstance(call.func, ast.Attribute) and call.func.attr == "join"
        return is_named and self.is_iterator(call.args[0])

    def type_of(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return self.types.get(node.id, "")
        if isinstance(node, ast.Attribute):
            return self._program.attribute(self.type_of(node.value), node.attr)
        if isinstance(node, ast.Subscript):
            return self.type_of(node.value)  # containers have the type of what is in them
        if isinstance(node, ast.Call):
            return self._type_of_call(node)
        return ""

    def _type_of_call(self, node: ast.Call) -> str:
        function = node.func
        if isinstance(function, ast.Name):
            if function.id in self._program.classes or function.id == "ExitStack":
                return function.id
            if function.id in ("dict", "iter") and node.args:
                return self.type_of(node.args[0])
            found = self._program.functions.get(function.id)
            result, kind = _class_of(found.returns if found else None), self.call_kind(node)
        elif isinstance(function, ast.Attribute):
            result = self._program.result_of(self.type_of(function.value), function.attr)
            kind = self.call_kind(node)
        else:
            return ""
        if kind == "iterate" or (kind == "await" and result == "Iterator"):
            return ASYNC_ITERATOR
        return self._entered_type(function) if kind == "enter" else result

    def _entered_type(self, function: ast.expr) -> str:
        """A context manager gives what its iterator does."""
        if not isinstance(function, ast.Attribute):
            return ""
        owner = self.type_of(function.value)
        returns = self._program.classes[owner].methods[function.attr].returns
        return _class_of(returns.slice) if isinstance(returns, ast.Subscript) else ""


class Edits:
    """Changes of a text, by places in it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line.encode()))
        self._data = text.encode()
        self._found: list[tuple[int, int, int, bytes]] = []

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)

    def put(self, place: int, text: str) -> None:
        self.replace(place, place, text)

    def replace(self, start: int, end: int, text: str) -> None:
        self._found.append((start, end, len(self._found), text.encode()))

    def before(self, word: str, place: int) -> int:
        """Where the last such word before that place is."""
        return self._data.rindex(word.encode(), 0, place)

    def source(self, node: ast.expr | ast.stmt) -> str:
        return self._data[self.start(node) : self.end(node)].decode()

    def result(self) -> str:
        parts, place = [], 0
        for start, end, _, text in sorted(self._found):
            parts += [self._data[place:start], text]
            place = max(place, end)
        return b"".join([*parts, self._data[place:]]).decode()


def made_of(program: Program, made: Made) -> str:
    """The module in its asynchronous form, before it is formatted."""
    tree = program.trees[made.source]
    edits = Edits((SOURCE / made.source).read_text())
    for node in tree.body:
        is_definition = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Assign)
        if made.only and is_definition and getattr(node, "name", "") not in made.only:
            edits.replace(edits.start(node), edits.end(node), "")
        elif isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, Function):
                    _change(program, node.name, method, edits)
        elif isinstance(node, Function):
            _change(program, "", node, edits)
    return _finished(edits.result(), made)


def _change(program: Program, owner: str, function: Function, edits: Edits) -> None:
    scope = Scope(program, owner, function)
    name = f"{owner}.{function.name}" if owner else function.name
    kind = program.method_kind(owner, function.name) if owner else program.kinds.get(name, "")
    is_renamed = function.name in ("__enter__", "__exit__", "__next__")
    if kind or is_renamed:
        _change_heading(function, kind, scope, edits)
    if name in BODIES:
        edits.replace(
            edits.start(function.body[0]), edits.end(function.body[-1]), BODIES[name].strip()
        )
        return
    parents = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
    nested = [
        one for one in ast.walk(function) if isinstance(one, Function) and one is not function
    ]
    for inner in nested:
        edits.put(edits.start(inner), "async ")
    for node in scope.asynchronous():
        _change_node(node, parents, scope, edits)
    if kind == "iterate":
        for node in ast.walk(function):
            if isinstance(node, ast.YieldFrom):
                _change_yield_from(node, scope, edits)


def _change_heading(function: Function, kind: str, scope: Scope, edits: Edits) -> None:
    is_abstract_iterator = kind == "iterate" and not _yields(function)
    if not is_abstract_iterator:
        edits.put(edits.start(function), "async ")
    _rename_iter(function, edits)
    for decorator in function.decorator_list:
        if kind == "enter" and _decorator(decorator) == "contextmanager":
            edits.put(edits.start(decorator), "async")
    annotations = [function.returns]
    annotations += [
        argument.annotation
        for argument in function.args.args
        if argument.arg in ITERATORS.get(scope.name, ())
    ]
    for annotation in annotations:
        if annotation is not None and _class_of(annotation) == "Iterator":
            edits.put(edits.start(annotation), "Async")


def _rename_iter(function: Function, edits: Edits) -> None:
    if function.name == "__iter__":
        edits.put(edits.start(function) + len("def __"), "a")


def _change_node(
    node: ast.AST, parents: Mapping[ast.AST, ast.AST], scope: Scope, edits: Edits
) -> None:
    if isinstance(node, ast.Call) and scope.is_join(node):
        pieces = node.args[0]
        edits.put(edits.start(pieces), "[piece async for piece in ")
        edits.put(edits.end(pieces), "]")
    elif isinstance(node, ast.Call | ast.Attribute):
        is_bound = isinstance(parents.get(node), ast.Attribute | ast.Subscript)
        is_next = isinstance(node, ast.Call) and scope.is_next(node)
        edits.put(
            edits.start(node), ("(" if is_bound else "") + "await " + ("a" if is_next else "")
        )
        if is_bound:
            edits.put(edits.end(node), ")")
    elif isinstance(node, ast.For | ast.With):
        edits.put(edits.start(node), "async ")
    elif isinstance(node, ast.comprehension):
        edits.put(edits.before("for ", edits.start(node.target)), "async ")


def _change_yield_from(node: ast.YieldFrom, scope: Scope, edits: Edits) -> None:
    """An asynchronous generator cannot have one."""
    loop = "async for" if scope.is_iterator(node.value) else "for"
    indent = " " * (node.col_offset + 4)
    text = f"{loop} item in {edits.source(node.value)}:\n{indent}yield item"
    edits.replace(edits.start(node), edits.end(node), text)


def protocols_of(program: Program, made: Made) -> str:
    """The Protocols in their asynchronous form, before they are formatted."""
    text = (SOURCE / made.source).read_text()
    edits = Edits(text)
    body = ast.parse(text).body
    docstring = DOCSTRINGS[made.target].strip()
    ending = "\n" if "\n" in docstring else ""
    edits.replace(edits.start(body[0]), edits.end(body[0]), f'"""{docstring}{ending}"""')
    for node in body:
        if not isinstance(node, ast.ClassDef):
            continue
        plain = "Remote" + node.name.removeprefix("Readable")
        owner = PROTOCOL_CLASSES.get(node.name, plain)
        for method in node.body:
            if isinstance(method, Function):
                kind = program.method_kind(owner, method.name)
                if kind == "await" or method.name in ("__enter__", "__exit__"):
                    edits.put(edits.start(method), "async ")
                if kind:
                    _rename_iter(method, edits)
                if kind and method.returns and _class_of(method.returns) == "Iterator":
                    edits.put(edits.start(method.returns), "Async")
    return _finished(edits.result(), made)


def _finished(text: str, made: Made) -> str:
    for pattern, instead in TEXT:
        text = re.sub(pattern, instead, text)
    return HEADING.format(f"src/lakebed/{made.source}") + text


def _class_of(annotation: ast.expr | None) -> str:
    """The class that is named, or that is in the container that is."""
    if isinstance(annotation, ast.Name):
        return annotation.id
    if isinstance(annotation, ast.BinOp):
        return _class_of(annotation.left)
    if isinstance(annotation, ast.Subscript):
        container = _class_of(annotation.value)
        if container in ("Sequence", "Mapping", "dict", "list", "tuple"):
            inner = annotation.slice
            return _class_of(inner.elts[-1] if isinstance(inner, ast.Tuple) else inner)
        return container
    return ""


def _decorator(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _yields(function: Function) -> bool:
    nested = {
        inner
        for one in ast.walk(function)
        if isinstance(one, Function) and one is not function
        for inner in ast.walk(one)
    }
    return any(
        isinstance(node, ast.Yield | ast.YieldFrom) and node not in nested
        for node in ast.walk(function)
    )


def formatted(text: str, target: str) -> str:
    """As ruff has it, without the imports that are not needed."""
    ruff = [sys.executable, "-m", "ruff"]
    place = ["--stdin-filename", str(SOURCE / target)]
    for command in (
        ["check", "--fix", "--exit-zero", "--quiet", "--select", "I,F401", *place, "-"],
        ["format", "--quiet", *place, "-"],
    ):
        done = subprocess.run(
            [*ruff, *command], input=text, capture_output=True, text=True, check=True
        )
        text = done.stdout
    return text


def made_files() -> dict[Path, str]:
    """What the modules should have."""
    program = Program()
    texts = {made.target: made_of(program, made) for made in MADE}
    texts |= {made.target: protocols_of(program, made) for made in PROTOCOLS}
    return {SOURCE / target: formatted(text, target) for target, text in texts.items()}


if __name__ == "__main__":
    for path, content in made_files().items():
        path.write_text(content)
