"""`python.md`: the Python API, from the public names of `lakebed` and the Protocols of a store."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from inspect import get_annotations
from types import UnionType
from typing import Any, Final, ForwardRef, NamedTuple, get_args, get_type_hints

import lakebed
from lakebed.api import read_surface, surface
from lakebed.base.config import field_names
from lakebed.base.errors import LakebedError
from tools.reference.markdown import anchor, code, codes, fenced, plain, table
from tools.reference.markdown import page as page_of
from tools.reference.sources import docstring, field_notes

PROTOCOLS: Final[Sequence[type]] = (
    surface.Store,
    surface.Log,
    surface.Tiers,
    surface.Topics,
    surface.Topic,
    surface.Partition,
    surface.PendingAppend,
    surface.Group,
    surface.Bucket,
    read_surface.StoredObject,
    surface.AccessKeys,
    surface.Pins,
    surface.Damage,
    surface.Maintenance,
    read_surface.MessageFollower,
    read_surface.ReadableManifestLog,
)
"""The classes of a store, in the order of the page. Bases in `read_surface` are part of them."""

_STARS: Final[Mapping[Any, str]] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}

_INTRODUCTION = """
The names below can be imported from `lakebed`. `lakebed.Store` (in process) and `lakebed.connect`
(in process, or over a socket or HTTP) give access to a store through the same Protocols, which are
listed under [The store](#the-store). Embedded classes have further methods, for example multipart
uploads; the [guides](../README.md) show them. `lakebed.aio` has the same Protocols for asyncio:
calls are awaited, and iterators are asynchronous.
""".strip()

_STORE = """
Members under *Reading* belong to the Protocols of `lakebed.api.read_surface`. A store opened with
`read_only=True` has them too; its `log`, `topic` and `bucket` open only what exists. `timeout` and
names ending in `_s` are in seconds.
""".strip()


class Member(NamedTuple):
    """A method or property as the page shows it."""

    signature: str
    text: str
    is_reading: bool


def page() -> str:
    return page_of(
        "Python API",
        _INTRODUCTION,
        _index(),
        "## Opening a store",
        *_function(lakebed.connect, name="lakebed.connect"),
        *_function(lakebed.Store.open, name="lakebed.Store.open"),
        "## The store",
        _STORE,
        *_protocols(),
        "## Values",
        *(block for kind in _values() for block in _value(kind)),
        *_aliases(),
        "## Configuration",
        *(block for kind in _configurations() for block in _configuration(kind)),
        "## A log without a store",
        *_class(lakebed.AofManager, name="AofManager"),
        "## Errors",
        _errors(),
    )


def members(protocol: type) -> Iterator[Member]:
    """The public members of a class and its Protocol bases: reading before writing."""
    found: dict[str, Member] = {}
    for kind in reversed(protocol.__mro__):
        if not kind.__module__.startswith("lakebed."):
            continue
        for name, value in vars(kind).items():
            if name.startswith("_"):
                continue
            is_reading = kind.__module__ == read_surface.__name__ or (
                name in found and found[name].is_reading
            )
            if isinstance(value, property):
                getter: Any = value.fget
                result = get_annotations(getter)["return"]
                found[name] = Member(f"{name}: {result}", _text(value), is_reading)
            elif callable(value) or isinstance(value, classmethod):
                function = value.__func__ if isinstance(value, classmethod) else value
                found[name] = Member(f"{name}{_signature(function)}", _text(function), is_reading)
    yield from sorted(found.values(), key=lambda member: not member.is_reading)


def _index() -> str:
    """Every public name, with a link to the section that describes it."""
    rows = []
    for name in sorted(lakebed.__all__, key=str.lower):
        value = getattr(lakebed, name)
        if name == "__version__":
            rows.append((code(f"lakebed.{name}"), "The version of the package."))
            continue
        is_error = isinstance(value, type) and issubclass(value, LakebedError)
        title = "Errors" if is_error else _HEADINGS.get(name, name)
        rows.append((f"[{code(f'lakebed.{name}')}](#{anchor(title)})", _summary(value)))
    return table(("name", "is"), rows)


_HEADINGS: Final = {"connect": "lakebed.connect", "Store": "lakebed.Store.open"}


def _summary(value: Any) -> str:
    if isinstance(value, UnionType):
        return f"One of {codes(_annotation(kind) for kind in get_args(value))}."
    text = docstring(value) if isinstance(value, type) else inspect.getdoc(value) or ""
    return plain(text.split("\n\n")[0])


def _function(function: Any, *, name: str) -> Iterator[str]:
    yield f"### {name}"
    yield fenced(f"{name}{_signature(function)}", language="python")
    yield from map(plain, (inspect.getdoc(function) or "").split("\n\n"))


def _protocols() -> Iterator[str]:
    for protocol in PROTOCOLS:
        yield f"### {protocol.__name__}"
        yield plain(docstring(protocol))
        found = list(members(protocol))
        reads = [member for member in found if member.is_reading]
        writes = [member for member in found if not member.is_reading]
        if reads and writes:
            yield from ("Reading:", _bullets(reads), "Writing:", _bullets(writes))
        else:
            yield _bullets(found)


def _class(kind: type, *, name: str) -> Iterator[str]:
    yield f"### {name}"
    yield plain(docstring(kind))
    yield fenced(f"{name}{_signature(kind.__init__)}", language="python")  # type: ignore[misc]
    yield _bullets(members(kind))


def _bullets(found: Iterable[Member]) -> str:
    return "\n".join(
        f"- {code(member.signature)}" + (f"<br>{plain(member.text)}" if member.text else "")
        for member in found
    )


def _aliases() -> Iterator[str]:
    """The public names that are unions of types."""
    for name in lakebed.__all__:
        value = getattr(lakebed, name)
        if isinstance(value, UnionType):
            yield f"### {name}"
            yield f"One of {codes(_annotation(kind) for kind in get_args(value))}."


def _values() -> list[type]:
    """The plain classes that the members take and return, and the public ones, by name."""
    kinds = {
        kind
        for protocol in PROTOCOLS
        for base in protocol.__mro__
        if base.__module__ in (surface.__name__, read_surface.__name__)
        for member in vars(base).values()
        for kind in _named_in(member)
    }
    public = [getattr(lakebed, name) for name in lakebed.__all__]
    kinds |= {value for value in public if isinstance(value, type)}
    return sorted(
        {kind for kind in kinds if _is_value(kind)}, key=lambda kind: kind.__name__.lower()
    )


def _is_value(kind: type) -> bool:
    if kind in _configurations() or issubclass(kind, LakebedError):
        return False
    is_enum = issubclass(kind, Enum)
    return is_enum or kind is lakebed.RecordId or bool(_fields(kind))


def _named_in(member: Any) -> Iterator[type]:
    function = member.fget if isinstance(member, property) else member
    if not inspect.isfunction(function):
        return
    waiting = list(get_type_hints(function).values())
    while waiting:
        hint = waiting.pop()
        waiting.extend(get_args(hint))
        if isinstance(hint, type) and hint.__module__.startswith("lakebed."):
            yield hint


def _value(kind: type) -> Iterator[str]:
    yield f"### {kind.__name__}"
    yield plain(docstring(kind))
    notes = field_notes(kind)
    if issubclass(kind, Enum):
        rows = [(code(one.name), code(str(one.value)), notes.get(one.name, "")) for one in kind]
        yield table(("member", "value", "note"), rows)
    elif fields := _fields(kind):
        rows = [(code(name), code(type_), plain(notes.get(name, ""))) for name, type_ in fields]
        yield table(("field", "type", "note"), rows)
    methods = [member for member in members(kind) if member.text]
    if methods:
        yield _bullets(methods)


def _fields(kind: type) -> list[tuple[str, str]]:
    """Names and annotations of the fields of a tuple, a dataclass or a struct."""
    if dataclasses.is_dataclass(kind):
        return [(field.name, str(field.type)) for field in dataclasses.fields(kind)]
    names: Sequence[str] = getattr(kind, "_fields", ()) or getattr(kind, "__struct_fields__", ())
    annotations = get_annotations(kind)
    return [(name, _annotation(annotations.get(name, ""))) for name in names]


def _configurations() -> list[Any]:
    return [
        getattr(lakebed, name)
        for name in lakebed.__all__
        if name.endswith("Config") and dataclasses.is_dataclass(getattr(lakebed, name))
    ]


def _configuration(kind: Any) -> Iterator[str]:
    yield f"### {kind.__name__}"
    yield plain(docstring(kind))
    named = ", ".join(code(name) for name in field_names(kind))
    parts = [field.name for field in dataclasses.fields(kind)]
    nested = ", ".join(code(name) for name in parts if name not in field_names(kind))
    more = f" Configurations of their own: {nested}." if nested else ""
    yield f"Keyword arguments: {named}.{more} See [settings](configuration.md)."


def _errors() -> str:
    """The tree, indented; errors that are raised by calls."""
    public = [getattr(lakebed, name) for name in lakebed.__all__]
    errors = {value for value in public if isinstance(value, type) and _is_error(value)}
    return "\n".join(_branch(LakebedError, errors, depth=0))


def _is_error(value: type) -> bool:
    return issubclass(value, LakebedError)


def _branch(error: type, errors: set[type], *, depth: int) -> Iterator[str]:
    yield f"{'  ' * depth}- {code(error.__name__)}: {plain(docstring(error))}"
    below = [one for one in errors if _parent(one, errors) is error]
    for one in sorted(below, key=lambda one: one.__name__):
        yield from _branch(one, errors, depth=depth + 1)


def _parent(error: type, errors: set[type]) -> type | None:
    return next((kind for kind in error.__mro__[1:] if kind in errors), None)


def _text(member: Any) -> str:
    return " ".join((inspect.getdoc(member) or "").split())


def _signature(function: Any) -> str:
    """As it is written, without `self`; a default that is a function is shown by its name."""
    signature = inspect.signature(function)
    kept, star = [], False
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            kept.append("*")
            star = True
        kept.append(_parameter(parameter))
    result = _annotation(signature.return_annotation)
    return f"({', '.join(kept)})" + (f" -> {result}" if result else "")


def _parameter(parameter: inspect.Parameter) -> str:
    text = f"{_STARS.get(parameter.kind, '')}{parameter.name}"
    annotation = _annotation(parameter.annotation)
    text += f": {annotation}" if annotation else ""
    if parameter.default is parameter.empty:
        return text
    default = getattr(parameter.default, "__name__", None) or repr(parameter.default)
    return f"{text} = {default}" if annotation else f"{text}={default}"


def _annotation(value: Any) -> str:
    if value is inspect.Signature.empty:
        return ""
    if isinstance(value, ForwardRef):
        return value.__forward_arg__
    return value if isinstance(value, str) else getattr(value, "__name__", str(value))
