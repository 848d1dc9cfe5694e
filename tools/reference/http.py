"""`http.md`: the calls of the HTTP API, from its OpenAPI document, and its errors."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, Final, get_args, get_origin

import msgspec

from lakebed.api import media, problems
from lakebed.api.operation_table import OPERATIONS
from lakebed.base.errors import LakebedError
from lakebed.http_api import openapi
from tools.reference.markdown import anchor, code, codes, plain, table
from tools.reference.markdown import page as page_of
from tools.reference.sources import declared, field_notes

Schema = Mapping[str, Any]

_REF: Final = "#/components/schemas/"
_LIMITS: Final = {"minimum": "at least", "maximum": "at most"}

_INTRODUCTION = f"""
The contents of `/v1/openapi.json`. Documents are JSON, or MessagePack
({code(media.MSGPACK)}) with the same members and raw bytes where JSON has base64.
How to connect to a store, and examples for curl, are in [the HTTP API](../guides/http-api.md).
""".strip()


def page() -> str:
    document = openapi.describe(OPERATIONS)
    blocks = [_INTRODUCTION]
    for tag in document["tags"]:
        blocks.append(f"## {tag['name'].capitalize()}")
        for path, calls in document["paths"].items():
            for method, call in calls.items():
                if tag["name"] in call["tags"]:
                    blocks += _call(method.upper(), path, call)
    responses = document["components"]["responses"]
    blocks += ["## Documents", *_documents(document["components"]["schemas"])]
    blocks += ["## Refusals", _refusals(responses), "## Errors", _errors()]
    return page_of("HTTP API", *blocks)


def _call(method: str, path: str, call: Schema) -> Iterator[str]:
    yield f"### {call['operationId']}"
    public = "" if call.get("security") != [] else " Needs no key."
    yield f"{code(f'{method} {path}')}: {plain(call['summary'])}.{public}"
    rows = [_parameter(one) for one in call["parameters"]]
    if rows:
        yield table(("parameter", "in", "type", "default"), rows)
    lines = []
    if "requestBody" in call:
        needed = "" if call["requestBody"]["required"] else ", may be left out"
        lines.append(f"- Takes {_content(call['requestBody']['content'])}{needed}.")
    refused = []
    for status, answer in call["responses"].items():
        if "$ref" in answer:
            refused.append(status)
        else:
            lines.append(f"- Returns {status}: {_content(answer.get('content', {}))}.")
    lines.append(f"- Refused with {', '.join(refused)}.")
    yield "\n".join(lines)


def _parameter(one: Schema) -> tuple[str, str, str, str]:
    schema = one["schema"]
    default = "required" if one["required"] else _default(schema)
    return code(one["name"]), one["in"], _kind(schema), default


def _content(content: Schema) -> str:
    """Kinds of one schema together."""
    by_schema: dict[str, list[str]] = {}
    for kind, one in content.items():
        by_schema.setdefault(_kind(one["schema"]), []).append(kind)
    texts = [f"{schema} ({codes(kinds)})" for schema, kinds in by_schema.items()]
    return ", or ".join(texts) or "no body"


def _kind(schema: Schema) -> str:
    """A type in words, with its limits."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF)
        return f"[{name}](#{anchor(_heading(name))})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_kind, schema["anyOf"])))
    if "enum" in schema:
        return " or ".join(code(str(one)) for one in schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        return f"list of {_kind(schema['items'])}" if schema.get("items") else "list"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        inner = _kind(schema["additionalProperties"])
        return "object" if inner == "anything" else f"object of {inner}"
    if kind is None:
        return "bytes" if "contentMediaType" in schema else "anything"
    if kind == "string" and schema.get("contentEncoding") == "base64":
        return "bytes"
    if "description" in schema:
        text = schema["description"]
        return f"{kind}: {text[:1].lower()}{text[1:]}"
    limits = [f"{word} {schema[name]}" for name, word in _LIMITS.items() if name in schema]
    return " ".join([kind, ", ".join(limits)]).strip()


def _default(schema: Schema) -> str:
    value = schema.get("default")
    if value is None:
        return ""
    return code(str(value).lower() if isinstance(value, bool) else str(value) or '""')


def _documents(schemas: Mapping[str, Schema]) -> Iterator[str]:
    structs = _structs()
    for name, schema in sorted(schemas.items()):
        yield f"### {_heading(name)}"
        yield plain(schema.get("description", ""))
        notes = field_notes(structs[name])
        needed = schema.get("required", [])
        rows = [
            (
                code(field),
                _kind(one),
                "required" if field in needed else _default(one),
                plain(notes.get(field, "")),
            )
            for field, one in schema.get("properties", {}).items()
        ]
        if rows:
            yield table(("member", "type", "default", "note"), rows)


def _heading(name: str) -> str:
    """Of a document: a call may have the same name."""
    return f"{name} document"


def _structs() -> dict[str, type]:
    """The classes of the documents, by name."""
    kinds = [kind for operation in OPERATIONS for kind in (operation.body, operation.result)]
    found: dict[str, type] = {}
    pending: list[object] = [*msgspec.inspect.multi_type_info([*kinds, openapi.Problem])]
    while pending:
        info = pending.pop()
        kind = getattr(info, "cls", None)
        cls = get_origin(kind) or kind
        if cls is not None:
            arguments = "".join(f"_{one.__name__}_" for one in get_args(kind))
            if found.setdefault(cls.__name__ + arguments, cls) is not cls:
                raise ValueError(f"two documents are called {cls.__name__}")
        for name in getattr(info, "__struct_fields__", ()):
            inner = getattr(info, name)
            pending += inner if isinstance(inner, tuple) else [inner]
    return found


def _refusals(responses: Mapping[str, Schema]) -> str:
    """By status, whatever the error is."""
    rows = []
    for name, answer in responses.items():
        header = codes(answer.get("headers", ()))
        rows.append((name.removeprefix("Problem"), plain(answer["description"]), header))
    return table(("status", "meaning", "header"), rows)


def _errors() -> str:
    """By `code`, with the advice to the client."""
    rows = []
    for kind in sorted(_kinds(), key=problems.code_of):
        error = kind.__new__(kind)
        document = problems.problem_of(error)
        title = plain(document["title"])
        rows.append((code(document["code"]), str(document["status"]), title, document["advice"]))
    return table(("code", "status", "meaning", "advice"), rows)


def _kinds() -> Iterable[type[LakebedError]]:
    """Those of the modules that `problems` knows; of one name, that of the base."""
    known = [one for one in vars(problems).values() if inspect.ismodule(one)]
    ours = [one for one in known if one.__name__.startswith("lakebed.")]
    found: dict[str, type[LakebedError]] = {}
    for module in (*sorted(ours, key=_rank, reverse=True), media, problems):
        found |= dict(declared(module, LakebedError))
    return found.values()


def _rank(module: ModuleType) -> bool:
    return not module.__name__.startswith("lakebed.base.")
